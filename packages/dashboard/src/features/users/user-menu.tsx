import type { User } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { query, useAction } from "../../api/queries.ts";
import { useMe } from "../../api/session.ts";
import { ConfirmDialog, copyAsRf, FormDialog, Menu, NameInput } from "../../ui/index.ts";
import { type Grant, isLastAdmin } from "./grants.ts";
import { GrantsFields } from "./grant-fields.tsx";
import { NewTokenDialog } from "./new-token.tsx";
import { userLines } from "./user-lines.ts";

type Shown = "change" | "token" | "remove";

/** The actions on a user. */
export function UserMenu({ user }: { user: User }) {
  const navigate = useNavigate();
  const [shown, setShown] = useState<Shown>();
  const close = (): void => setShown(undefined);
  return (
    <>
      <Menu
        label={`Actions for ${user.name.slice(0, 80)}`}
        entries={[
          { label: "Change name or role…", onSelect: () => setShown("change") },
          { label: "New token…", onSelect: () => setShown("token") },
          { label: "Tokens", onSelect: () => void navigate({ to: "/users/tokens", search: { user_id: user.id } }) },
          { label: "Show in audit log", onSelect: () => void navigate({ to: "/audit", search: { actor_id: user.id } }) },
          copyAsRf(userLines.show(user.id)),
          { label: "Remove…", danger: true, onSelect: () => setShown("remove") },
        ]}
      />
      {shown === "change" && <ChangeUser user={user} onClose={close} />}
      {shown === "token" && <NewTokenDialog user_id={user.id} onClose={close} />}
      {shown === "remove" && <RemoveUser user={user} onClose={close} />}
    </>
  );
}

interface Parts {
  user: User;
  onClose: () => void;
}

const PROTECTED = "This is the last admin of the whole organization, and no organization token has this role. Add another admin first.";

function useLastAdmin(user: User): boolean {
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const tokens = useQuery(query("listTokens")).data?.items ?? [];
  return isLastAdmin(user, users, tokens);
}

function ChangeUser({ user, onClose }: Parts) {
  const me = useMe();
  const is_last = useLastAdmin(user);
  const [name, setName] = useState(user.name);
  const [grants, setGrants] = useState<readonly Grant[]>(user.grants);
  const changing = useAction("updateUser", { quiet: true, done: "Changed", onSuccess: onClose });
  const new_name = name.trim() === user.name ? undefined : name.trim();
  const note = is_last
    ? PROTECTED
    : user.id === me.actor.id
      ? "This is your own account: roles that you remove end within two seconds, on this page, too."
      : "Removed roles end within two seconds, including in open streams. Tokens of a user never have more permissions than the user.";
  return (
    <FormDialog
      title={`Change ${user.name.slice(0, 80)}`}
      description={note}
      verb="Change"
      onClose={onClose}
      sending={changing}
      command={userLines.change(user.id, new_name, grants)}
      onSubmit={() => changing.mutate({ params: { id: user.id }, body: { name: new_name, grants: [...grants] } })}
    >
      <NameInput value={name} onChange={setName} />
      <GrantsFields grants={grants} onChange={setGrants} />
    </FormDialog>
  );
}

function RemoveUser({ user, onClose }: Parts) {
  const me = useMe();
  const is_last = useLastAdmin(user);
  const removing = useAction("deleteUser", { done: "Removed", onSuccess: onClose });
  if (is_last)
    return <ConfirmDialog open onClose={onClose} title="User cannot be removed" consequence={PROTECTED} verb="Close" onConfirm={onClose} />;
  const self = user.id === me.actor.id ? "This is your own account: you will be signed out immediately. " : "";
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Remove ${user.name.slice(0, 80)}?`}
      consequence={`${self}All roles and tokens of ${user.email} in this organization end within two seconds, including open pages, shells and streams. Audit log entries are kept. Other organizations of this account are not affected.`}
      verb="Remove user"
      danger
      command={userLines.remove(user.id)}
      busy={removing.isPending}
      onConfirm={() => removing.mutate({ params: { id: user.id } })}
    >
      <Holdings id={user.id} />
    </ConfirmDialog>
  );
}

const OUTCOMES = { cancelled: "is cancelled", revoked: "is revoked", kept: "is kept: revoke it under Tokens" } as const;

/** Lists the objects that the removal affects, and the effect on each. */
function Holdings({ id }: { id: string }) {
  const { data } = useQuery(query("listUserHoldings", { params: { id } }));
  if (data === undefined || data.items.length === 0) return null;
  return (
    <ul
      aria-label="Affected objects"
      className="max-h-48 list-disc overflow-y-auto pl-5 text-left [overflow-wrap:anywhere] whitespace-normal"
    >
      {data.items.map((holding) => (
        <li key={holding.id}>
          {holding.kind.replaceAll("_", " ")} {holding.label ?? holding.id} ({holding.status}) {OUTCOMES[holding.outcome]}
        </li>
      ))}
    </ul>
  );
}
