import type { NewToken, Token } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { createContext, use, useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { query, useAction } from "../../api/queries.ts";
import { useMe } from "../../api/session.ts";
import {
  Button,
  Command,
  copyAsRf,
  Dialog,
  durationText,
  FormDialog,
  Menu,
  SecretOnce,
  Select,
  shellLine,
  TextInput,
} from "../../ui/index.ts";
import { GrantFields } from "./grant-fields.tsx";
import { type Grant, tokenLines } from "./grants.ts";

interface Parts {
  token: Token;
  /** Name of the token's user; undefined for an organization token. */
  of: string | undefined;
}

/** The actions on a token. */
export function TokenMenu({ token, of }: Parts) {
  const navigate = useNavigate();
  const is_active = token.status === "active";
  return (
    <Menu
      label={`Actions for token ${token.label?.slice(0, 80) ?? token.prefix}`}
      entries={[
        is_active && { label: "Rotate…", renderDialog: (close) => <RotateToken token={token} of={of} onClose={close} /> },
        { label: "Show in audit log", onSelect: () => void navigate({ to: "/audit", search: { token_id: token.id } }) },
        copyAsRf(tokenLines.show(token.id)),
        is_active && { label: "Revoke…", danger: true, renderDialog: (close) => <RevokeToken token={token} of={of} onClose={close} /> },
      ]}
    />
  );
}

const OVERLAPS = [0, 300, 3_600, 86_400].map((seconds) => ({
  value: String(seconds),
  label: seconds === 0 ? "immediately" : `after ${durationText(seconds)}`,
}));

function RotateToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const show = use(ShowToken);
  const [overlap, setOverlap] = useState("3600");
  const seconds = Number(overlap);
  const old = seconds === 0 ? "The old secret no longer works." : `The old secret works for another ${durationText(seconds)}.`;
  const rotating = useAction("rotateToken", {
    quiet: true,
    onSuccess: ({ data }) => {
      onClose();
      show({ token: data, of, old });
    },
  });
  return (
    <FormDialog
      title="Rotate token?"
      description="Creates a new secret; label, role and access do not change. Replace the old secret before it expires."
      verb="Rotate"
      onClose={onClose}
      sending={rotating}
      command={tokenLines.rotate(token.id, seconds)}
      onSubmit={() => rotating.mutate({ params: { id: token.id }, body: { overlap_seconds: seconds } })}
    >
      <Select
        label="Old secret expires"
        value={overlap}
        options={OVERLAPS}
        onValue={setOverlap}
        hint={
          token.id === me.token.id
            ? "You are signed in with this token. This session ends when the old secret expires: sign in again with the new secret."
            : undefined
        }
      />
    </FormDialog>
  );
}

function RevokeToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const self = token.id === me.token.id ? "You are signed in with this token: revoking it signs you out. " : "";
  return (
    <ConfirmAction
      route="revokeToken"
      args={{ params: { id: token.id } }}
      onClose={onClose}
      title="Revoke token?"
      consequence={`${self}${of === undefined ? "Requests with the token are refused" : `Requests of ${of.slice(0, 80)} with the token are refused`} within two seconds. The token's browser sessions, open shells and streams end. This cannot be undone.`}
      verb="Revoke token"
      danger
      done="Token revoked"
      command={tokenLines.revoke(token.id)}
    />
  );
}

const LIFETIMES = [
  { value: "0", label: "never" },
  { value: "24", label: "in a day" },
  { value: "168", label: "in a week" },
  { value: "720", label: "in 30 days" },
  { value: "2160", label: "in 90 days" },
  { value: "8760", label: "in a year" },
];

/** Creates a token of the organization or of a user. */
export function NewTokenDialog({ user_id: first, onClose }: { user_id?: string | undefined; onClose: () => void }) {
  const show = use(ShowToken);
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const [user_id, setUser] = useState(first ?? "");
  const [label, setLabel] = useState("");
  const [grant, setGrant] = useState<Grant>({ role: "operator", scopes: [] });
  const [hours, setHours] = useState("0");
  const of = users.find(({ id }) => id === user_id)?.name;
  const making = useAction("createToken", {
    quiet: true,
    onSuccess: ({ data }) => {
      onClose();
      show({ token: data, of });
    },
  });
  const body = { label: label.trim(), ...grant, user_id: user_id || undefined, expires_in_hours: Number(hours) };
  return (
    <FormDialog
      title="New token"
      verb="Create token"
      onClose={onClose}
      sending={making}
      command={tokenLines.create(body)}
      onSubmit={() => making.mutate({ body })}
    >
      <TextInput label="Label" required autoFocus maxLength={200} placeholder="ci, laptop, …" value={label} onValue={setLabel} />
      <Select
        label="Owner"
        value={user_id}
        options={[
          { value: "", label: "organization (for a program)" },
          ...users.map(({ id, name, email }) => ({ value: id, label: `${name} (${email})` })),
        ]}
        hint={user_id === "" ? undefined : "The token never has more permissions than its user."}
        onValue={setUser}
      />
      <GrantFields grant={grant} onChange={setGrant} />
      <Select label="Expires" value={hours} options={LIFETIMES} onValue={setHours} />
    </FormDialog>
  );
}

export interface MadeToken {
  token: NewToken;
  /** Name of the token's user; undefined for an organization token. */
  of?: string | undefined;
  /** How long the previous secret of a rotated token still works, in words. */
  old?: string | undefined;
}

/**
 * Passes a new token to the page, which shows it. The page stores the token, because the row whose dialog created it may disappear from the
 * list.
 */
export const ShowToken = createContext<(made: MadeToken) => void>(() => {});

/** Shows a new token, once. */
export function TokenOnce({ made: { token, of, old }, onClose }: { made: MadeToken; onClose: () => void }) {
  return (
    <Dialog
      open
      onClose={onClose}
      title={of === undefined ? "Token of the organization" : `Token of ${of.slice(0, 80)}`}
      actions={
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      {token.token === null ? (
        <p>
          The token was created, but the response with its secret was lost, and the secret is shown only once. Rotate the token to get
          another secret.
        </p>
      ) : (
        <>
          <SecretOnce secret={token.token}>
            Copy the token now: it is shown only once. Anyone with this token has its permissions.
          </SecretOnce>
          {old !== undefined && <p className="mt-3">{old}</p>}
          <p className="mt-3 mb-1 text-muted">
            To sign in, paste the token on this server's sign-in page, or run this command in a terminal:
          </p>
          <Command>{shellLine("rf", "login", "--base-url", window.location.origin)}</Command>
        </>
      )}
    </Dialog>
  );
}
