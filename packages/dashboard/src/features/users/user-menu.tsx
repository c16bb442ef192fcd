import type { User } from "@roamfleet/protocol/routes";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { use, useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { api, randomId } from "../../api/client.ts";
import { query, useAction } from "../../api/queries.ts";
import { refetchQueries } from "../../api/query-client.ts";
import { useMe } from "../../api/session.ts";
import { Checkbox, ConfirmDialog, copyAsRf, FormDialog, Menu, NameInput, TextInput } from "../../ui/index.ts";
import { GrantFields, GrantsFields } from "./grant-fields.tsx";
import { type Grant, isLastAdmin, userLines } from "./grants.ts";
import { NewTokenDialog, ShowToken } from "./token-menu.tsx";

/** The actions on a user. */
export function UserMenu({ user }: { user: User }) {
  const navigate = useNavigate();
  return (
    <Menu
      label={`Actions for ${user.name.slice(0, 80)}`}
      entries={[
        { label: "Change name or role…", renderDialog: (close) => <ChangeUser user={user} onClose={close} /> },
        { label: "New token…", renderDialog: (close) => <NewTokenDialog user_id={user.id} onClose={close} /> },
        { label: "Show tokens", onSelect: () => void navigate({ to: "/users/tokens", search: { user_id: user.id } }) },
        { label: "Show in audit log", onSelect: () => void navigate({ to: "/audit", search: { actor_id: user.id } }) },
        copyAsRf(userLines.show(user.id)),
        { label: "Remove…", danger: true, renderDialog: (close) => <RemoveUser user={user} onClose={close} /> },
      ]}
    />
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
  const changing = useAction("updateUser", { quiet: true, done: "User changed", onSuccess: onClose });
  const new_name = name.trim() === user.name ? undefined : name.trim();
  const note = is_last
    ? PROTECTED
    : user.id === me.actor.id
      ? "This is your own account: roles that you remove end within two seconds, also on this page."
      : "Removed roles end within two seconds, including in open streams. Tokens of a user never have more permissions than the user.";
  return (
    <FormDialog
      title={`Change ${user.name.slice(0, 80)}`}
      description={note}
      verb="Save"
      onClose={onClose}
      sending={changing}
      command={userLines.change(user.id, new_name, grants)}
      onSubmit={() => changing.mutate({ params: { id: user.id }, body: { name: new_name, grants: [...grants] } })}
    >
      <NameInput value={name} onValue={setName} />
      <GrantsFields grants={grants} onChange={setGrants} />
    </FormDialog>
  );
}

function RemoveUser({ user, onClose }: Parts) {
  const me = useMe();
  const is_last = useLastAdmin(user);
  if (is_last)
    return <ConfirmDialog open onClose={onClose} title="User cannot be removed" consequence={PROTECTED} verb="Close" onConfirm={onClose} />;
  const self = user.id === me.actor.id ? "This is your own account: you will be signed out. " : "";
  return (
    <ConfirmAction
      route="deleteUser"
      args={{ params: { id: user.id } }}
      onClose={onClose}
      title={`Remove ${user.name.slice(0, 80)}?`}
      consequence={`${self}All roles and tokens of ${user.email} in this organization end within two seconds, including open pages, shells and streams. Audit log entries are kept. Other organizations of this account are not affected.`}
      verb="Remove user"
      danger
      done="User removed"
      command={userLines.remove(user.id)}
    >
      <Holdings id={user.id} />
    </ConfirmAction>
  );
}

const OUTCOMES = { cancelled: "is cancelled", revoked: "is revoked", kept: "is not revoked: revoke it under Tokens if necessary" } as const;

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
          {holding.kind.replaceAll("_", " ")} {holding.label ?? holding.id} ({holding.status.replaceAll("_", " ")}){" "}
          {OUTCOMES[holding.outcome]}
        </li>
      ))}
    </ul>
  );
}

/** Creates a user and optionally their first token. */
export function Invite({ onClose }: { onClose: () => void }) {
  const show = use(ShowToken);
  const [email, setEmail] = useState("");
  const [name, setName] = useState("");
  const [grant, setGrant] = useState<Grant>({ role: "operator", scopes: [] });
  const [with_token, setWithToken] = useState(true);
  const inviting = useMutation({
    mutationFn: async () => {
      const body = { email: email.trim(), name: name.trim(), ...grant };
      const { data: user } = await api.createUser({ body, idempotency_key: randomId() });
      if (!with_token) return undefined;
      const token = { label: "first token", user_id: user.id, ...grant };
      return { token: (await api.createToken({ body: token, idempotency_key: randomId() })).data, of: user.name };
    },
    onSettled: () => refetchQueries(),
    onSuccess: (token) => {
      onClose();
      if (token !== undefined) show(token);
    },
  });
  return (
    <FormDialog
      title="Invite user"
      verb="Invite"
      onClose={onClose}
      sending={inviting}
      command={userLines.create(email, name, grant)}
      onSubmit={() => inviting.mutate()}
    >
      <TextInput
        label="Email address"
        type="email"
        required
        autoFocus
        value={email}
        onValue={setEmail}
        hint="Identifies the user. No email is sent."
      />
      <NameInput value={name} onValue={setName} />
      <GrantFields grant={grant} onChange={setGrant} />
      <div className="mb-3">
        <Checkbox label="Create a token now, to send over a secure channel" checked={with_token} onChange={setWithToken} />
      </div>
    </FormDialog>
  );
}
