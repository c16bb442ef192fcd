import type { Token, User } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { KeyRound, UserCheck, UserPlus } from "lucide-react";
import { type ReactNode, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, query, usePlaces } from "../../api/queries.ts";
import { useMay, useMe } from "../../api/session.ts";
import { TOKEN_STATUSES } from "../../search.ts";
import {
  Badge,
  type Column,
  EmptyState,
  FilterSelect,
  LinkTabs,
  ListActions,
  ListTable,
  namedOptions,
  NoMatch,
  PageHeader,
  StatusBadge,
  TextLine,
  Time,
  TypedSearch,
  useFilters,
} from "../../ui/index.ts";
import { ROLES, scopeWords, tokenLines, userLines } from "./grants.ts";
import { type MadeToken, NewTokenDialog, ShowToken, TokenMenu, TokenOnce } from "./token-menu.tsx";
import { Invite, UserMenu } from "./user-menu.tsx";

/** The header of the users and tokens pages, which are for admins only, and the token that was created last. */
function PeoplePage({ label, actions, children }: { label: string; actions: ReactNode; children: ReactNode }) {
  const is_admin = useMay("admin");
  const [made, setMade] = useState<MadeToken>();
  return (
    <ShowToken value={setMade}>
      <PageHeader title="Users and tokens" label={label} actions={is_admin && actions} />
      <LinkTabs
        label="Users and tokens"
        tabs={[
          { label: "Users", link: { to: "/users" } },
          { label: "Tokens", link: { to: "/users/tokens" } },
        ]}
      />
      {is_admin ? (
        children
      ) : (
        <EmptyState title="You don't have access">Only admins of the whole organization can manage users and tokens.</EmptyState>
      )}
      {made !== undefined && <TokenOnce made={made} onClose={() => setMade(undefined)} />}
    </ShowToken>
  );
}

const usersRoute = getRouteApi("/app/users");

export const UsersPage = () => (
  <PeoplePage
    label="Users"
    actions={<ListActions verb="Invite" icon={UserPlus} renderDialog={(close) => <Invite onClose={close} />} command={userLines.list} />}
  >
    <Users />
  </PeoplePage>
);

function Users() {
  const { search, change, clear, is_filtered } = useFilters(usersRoute.useSearch());
  const me = useMe();
  const places = usePlaces();
  const list = useLivePages("listUsers", { query: search });
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <TypedSearch label="Search by name or email" value={search.q} onValue={(q) => change({ q })} />
        <FilterSelect label="Role" value={search.role} options={ROLES} onChange={(role) => change({ role })} />
      </div>
      <ListTable
        label="Users"
        list={list}
        columns={userColumns(me.actor.id, places)}
        empty={
          is_filtered ? (
            <NoMatch title="No matching users" onClear={clear} />
          ) : (
            <EmptyState title="No users yet" command="rf users create ada@example.org --name Ada --role operator">
              You are signed in with an organization token. Invite users, so that the audit log records who did what.
            </EmptyState>
          )
        }
      />
    </>
  );
}

const userColumns = (own_id: string, { site_names, fleet_names }: Places): Column<User>[] => [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => (
      <span className="flex min-w-0 items-center gap-2">
        <TextLine className="font-medium">{name}</TextLine>
        {id === own_id && <Badge tone="info">you</Badge>}
      </span>
    ),
  },
  { name: "Email", width: "minmax(8rem,2fr)", priority: 2, cell: ({ email }) => <TextLine>{email}</TextLine> },
  {
    name: "Role",
    width: "6rem",
    cell: ({ grants }) => <TextLine>{grants.map(({ role }) => role).join(", ")}</TextLine>,
  },
  {
    name: "Access",
    width: "minmax(8rem,2fr)",
    priority: 3,
    cell: ({ grants }) => <TextLine>{grants.map(({ scopes }) => scopeWords(scopes, site_names, fleet_names)).join("; ")}</TextLine>,
  },
  { name: "Last seen", width: "7rem", priority: 2, cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  { name: "", width: "2rem", cell: (user) => <UserMenu user={user} /> },
];

const tokensRoute = getRouteApi("/app/users/tokens");

export function TokensPage() {
  const { user_id } = tokensRoute.useSearch();
  const renderDialog = (close: () => void) => <NewTokenDialog user_id={user_id} onClose={close} />;
  return (
    <PeoplePage
      label="Tokens"
      actions={<ListActions verb="New token" icon={KeyRound} renderDialog={renderDialog} command={tokenLines.list} />}
    >
      <Tokens />
    </PeoplePage>
  );
}

function Tokens() {
  const { search, change, clear } = useFilters(tokensRoute.useSearch());
  const me = useMe();
  const places = usePlaces();
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const list = useLivePages("listTokens", { query: search });
  const user_names = new Map(users.map(({ id, name }) => [id, name]));
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <FilterSelect label="Status" value={search.status} options={TOKEN_STATUSES} onChange={(status) => change({ status })} />
        <FilterSelect label="User" value={search.user_id} options={namedOptions(users)} onChange={(user_id) => change({ user_id })} />
      </div>
      <ListTable
        label="Tokens"
        list={list}
        columns={tokenColumns(me.token.id, user_names, places)}
        empty={<NoMatch title="No matching tokens" onClear={clear} />}
      />
    </>
  );
}

/** Marks the token of this session: by a badge, or by an icon on narrow screens. */
const CurrentMark = () => (
  <>
    <span className="max-sm:hidden">
      <Badge tone="info">current</Badge>
    </span>
    <span role="img" aria-label="current" title="current" className="shrink-0 text-info sm:hidden">
      <UserCheck size={14} aria-hidden />
    </span>
  </>
);

const tokenColumns = (own_id: string, user_names: ReadonlyMap<string, string>, { site_names, fleet_names }: Places): Column<Token>[] => [
  {
    name: "Label",
    width: "minmax(5rem,2fr)",
    cell: ({ id, label, prefix }) => (
      <span className="flex min-w-0 items-center gap-2">
        <TextLine className="font-medium">{label ?? prefix}</TextLine>
        {id === own_id && <CurrentMark />}
      </span>
    ),
  },
  {
    name: "Owner",
    width: "minmax(5rem,1.5fr)",
    priority: 2,
    cell: ({ user_id }) =>
      user_id === null ? <span className="text-muted">organization</span> : <TextLine>{user_names.get(user_id) ?? user_id}</TextLine>,
  },
  { name: "Role", width: "4rem", cell: ({ role }) => role },
  {
    name: "Access",
    width: "minmax(6rem,1.5fr)",
    priority: 3,
    cell: ({ scopes }) => <TextLine>{scopeWords(scopes, site_names, fleet_names)}</TextLine>,
  },
  { name: "Status", width: "5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Prefix", width: "8rem", priority: 3, cell: ({ prefix }) => <code className="font-mono text-xs">{prefix}</code> },
  { name: "Last used", width: "6.5rem", priority: 2, cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  { name: "Expires", width: "6.5rem", priority: 3, cell: ({ expires_at }) => <Time at={expires_at} /> },
  {
    name: "",
    width: "2rem",
    cell: (token) => <TokenMenu token={token} of={token.user_id === null ? undefined : user_names.get(token.user_id)} />,
  },
];
