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
  /** Name of its user; absent: it is the org's. */
  of: string | undefined;
}

/** What can be done with a token. */
export function TokenMenu({ token, of }: Parts) {
  const navigate = useNavigate();
  const [shown, setShown] = useState<"rotate" | "revoke">();
  const close = (): void => setShown(undefined);
  const is_active = token.status === "active";
  return (
    <>
      <Menu
        label={`More about token ${token.label?.slice(0, 80) ?? token.prefix}`}
        entries={[
          is_active && { label: "Rotate…", onSelect: () => setShown("rotate") },
          { label: "What was done with it", onSelect: () => void navigate({ to: "/audit", search: { token_id: token.id } }) },
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
  label: seconds === 0 ? "at once" : `after ${durationText(seconds)}`,
}));

function RotateToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const [overlap, setOverlap] = useState("3600");
  const [made, setMade] = useState<MadeToken>();
  const seconds = Number(overlap);
  const old = seconds === 0 ? "The old secret is refused from now on." : `The old secret is taken for ${durationText(seconds)} more.`;
  const rotating = useAction("rotateToken", { quiet: true, onSuccess: ({ data }) => setMade({ token: data, of, old }) });
  if (made !== undefined) return <TokenOnce made={made} onClose={onClose} />;
  return (
    <FormDialog
      title="Give it a new secret?"
      description="Label, role and places stay. Put the new secret where the old one is before that one ends."
      verb="Rotate"
      onClose={onClose}
      sending={rotating}
      command={tokenLines.rotate(token.id, seconds)}
      onSubmit={() => rotating.mutate({ params: { id: token.id }, body: { overlap_seconds: seconds } })}
    >
      <Select
        label="The old secret ends"
        value={overlap}
        options={OVERLAPS}
        onChange={(event) => setOverlap(event.target.value)}
        hint={
          token.id === me.token.id
            ? "You are signed in with it: when the old secret ends, so does this session. Sign in again with the new one."
            : undefined
        }
      />
    </FormDialog>
  );
}

function RevokeToken({ token, of, onClose }: Parts & { onClose: () => void }) {
  const me = useMe();
  const revoking = useAction("revokeToken", { done: "The token is revoked", onSuccess: onClose });
  const self = token.id === me.token.id ? "You are signed in with it: you are signed out at once. " : "";
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title="Revoke the token?"
      consequence={`${self}${of === undefined ? "Programs that use it are refused" : `What ${of.slice(0, 80)} asks with it is refused`} within two seconds; its sessions in browsers, open shells and streams end. This cannot be taken back.`}
      verb="Revoke it"
      danger
      command={tokenLines.revoke(token.id)}
      busy={revoking.isPending}
      onConfirm={() => revoking.mutate({ params: { id: token.id } })}
    />
  );
}
