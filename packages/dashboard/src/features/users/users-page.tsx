import type { User } from "@roamfleet/protocol/routes";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { UserPlus } from "lucide-react";
import { useState } from "react";
import { type Places, usePlaces } from "../../api/places.ts";
import { pagesQuery } from "../../api/queries.ts";
import { useMe } from "../../api/session.ts";
import { Badge, type Column, EmptyState, FilterSelect, ListActions, ListTable, NoMatch, SearchInput, Text, Time } from "../../ui/index.ts";
import { ROLE_OPTIONS, scopeWords } from "./grants.ts";
import { Invite } from "./invite.tsx";
import { PeoplePage } from "./people-head.tsx";
import type { UsersSearch } from "./search.ts";
import { userLines } from "./user-lines.ts";
import { UserMenu } from "./user-menu.tsx";

const route = getRouteApi("/app/users");
const PAGE_ROWS = 200;

export function UsersPage() {
  const [is_inviting, setInviting] = useState(false);
  return (
    <PeoplePage
      label="Users"
      actions={<ListActions verb="Invite" icon={UserPlus} onMake={() => setInviting(true)} command={userLines.list} />}
    >
      <Users />
      {is_inviting && <Invite onClose={() => setInviting(false)} />}
    </PeoplePage>
  );
}

function Users() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const me = useMe();
  const places = usePlaces();
  const list = useInfiniteQuery(pagesQuery("listUsers", { query: { ...search, limit: PAGE_ROWS } }));
  const show = (change: UsersSearch): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <SearchInput
          label="Search by name or email"
          value={search.q ?? ""}
          onChange={(event) => show({ q: event.target.value || undefined })}
        />
        <FilterSelect
          label="Role"
          value={search.role}
          options={ROLE_OPTIONS}
          onChange={(role) => show({ role: role as UsersSearch["role"] })}
        />
      </div>
      <ListTable
        label="Users"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(me.actor.id, places)}
        empty={
          search.q === undefined && search.role === undefined ? (
            <EmptyState title="No users yet" command="rf users create ada@example.org --name Ada --role operator">
              You are signed in with an organization token. Invite users, so that the audit log records who did what.
            </EmptyState>
          ) : (
            <NoMatch title="No matching users" onShowAll={() => void navigate({ search: {} })} />
          )
        }
      />
    </>
  );
}

const columns = (own_id: string, { site_names, fleet_names }: Places): Column<User>[] => [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => (
      <span className="flex min-w-0 items-center gap-2">
        <Text line className="font-medium">
          {name}
        </Text>
        {id === own_id && <Badge tone="info">you</Badge>}
      </span>
    ),
  },
  { name: "Email", width: "minmax(8rem,2fr)", priority: 2, cell: ({ email }) => <Text line>{email}</Text> },
  {
    name: "Role",
    width: "6rem",
    cell: ({ grants }) => <Text line>{grants.map(({ role }) => role).join(", ")}</Text>,
  },
  {
    name: "Access",
    width: "minmax(8rem,2fr)",
    priority: 3,
    cell: ({ grants }) => <Text line>{grants.map(({ scopes }) => scopeWords(scopes, site_names, fleet_names)).join("; ")}</Text>,
  },
  { name: "Last seen", width: "7rem", priority: 2, cell: ({ last_seen_at }) => <Time at={last_seen_at} /> },
  { name: "", width: "2rem", cell: (user) => <UserMenu user={user} /> },
];
