import type { Token } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useAction } from "../../api/queries.ts";
import { useMe } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, durationText, FormDialog, Menu, Select } from "../../ui/index.ts";
import { type MadeToken, TokenOnce } from "./token-once.tsx";
import { tokenLines } from "./user-lines.ts";

interface Parts {
  token: Token;
  /** Name of the token's user; undefined for an organization token. */
  of: string | undefined;
}

/** The actions on a token. */
export function TokenMenu({ token, of }: Parts) {
  const navigate = useNavigate();
  const [shown, setShown] = useState<"rotate" | "revoke">();
  const close = (): void => setShown(undefined);
  const is_active = token.status === "active";
  return (
    <>
      <Menu
        label={`Actions for token ${token.label?.slice(0, 80) ?? token.prefix}`}
        entries={[
          is_active && { label: "Rotate…", onSelect: () => setShown("rotate") },
          { label: "Show in audit log", onSelect: () => void navigate({ to: "/audit", search: { token_id: token.id } }) },
          copyAsRf(tokenLines.show(token.id)),
          is_active && { label: "Revoke…", danger: true, onSelect: () => setShown("revoke") },
        ]}
      />
      {shown === "rotate" && <RotateToken token={token} of={of} onClose={close} />}
      {shown === "revoke" && <RevokeToken token={token} of={of} onClose={close} />}
    </>
  );
}

const OVERLAPS = [0, 300, 3_600, 86_400].map((seconds) => ({
  value: String(seconds),
  label: seconds === 0 ? "immediately" : `after ${durationText(seconds)}`,
}));

function RotateToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const [overlap, setOverlap] = useState("3600");
  const [made, setMade] = useState<MadeToken>();
  const seconds = Number(overlap);
  const old = seconds === 0 ? "The old secret no longer works." : `The old secret works for another ${durationText(seconds)}.`;
  const rotating = useAction("rotateToken", { quiet: true, onSuccess: ({ data }) => setMade({ token: data, of, old }) });
  if (made !== undefined) return <TokenOnce made={made} onClose={onClose} />;
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
        label="The old secret expires"
        value={overlap}
        options={OVERLAPS}
        onChange={(event) => setOverlap(event.target.value)}
        hint={
          token.id === me.token.id
            ? "You are signed in with this token. This session ends when the old secret expires: sign in again with the new one."
            : undefined
        }
      />
    </FormDialog>
  );
}

function RevokeToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const revoking = useAction("revokeToken", { done: "Token revoked", onSuccess: onClose });
  const self = token.id === me.token.id ? "You are signed in with this token and will be signed out immediately. " : "";
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Revoke token?"
      consequence={`${self}${of === undefined ? "Programs that use it are refused" : `Requests of ${of.slice(0, 80)} with it are refused`} within two seconds. Its browser sessions, open shells and streams end. This cannot be undone.`}
      verb="Revoke token"
      danger
      command={tokenLines.revoke(token.id)}
      busy={revoking.isPending}
      onConfirm={() => revoking.mutate({ params: { id: token.id } })}
    />
  );
}
