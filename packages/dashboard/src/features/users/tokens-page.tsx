import type { Token } from "@roamfleet/protocol/routes";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { KeyRound } from "lucide-react";
import { useState } from "react";
import { type Places, usePlaces } from "../../api/places.ts";
import { pagesQuery, query } from "../../api/queries.ts";
import { useMe } from "../../api/session.ts";
import { Badge, type Column, FilterSelect, ListActions, ListTable, NoMatch, StatusBadge, Text, Time } from "../../ui/index.ts";
import { scopeWords } from "./grants.ts";
import { NewTokenDialog } from "./new-token.tsx";
import { PeoplePage } from "./people-head.tsx";
import { TOKEN_STATUSES, type TokensSearch } from "./search.ts";
import { TokenMenu } from "./token-menu.tsx";
import { tokenLines } from "./user-lines.ts";

const route = getRouteApi("/app/users/tokens");
const PAGE_ROWS = 200;

export function TokensPage() {
  const { user_id } = route.useSearch();
  const [is_making, setMaking] = useState(false);
  return (
    <PeoplePage
      label="Tokens"
      actions={<ListActions verb="New token" icon={KeyRound} onMake={() => setMaking(true)} command={tokenLines.list} />}
    >
      <Tokens />
      {is_making && <NewTokenDialog user_id={user_id} onClose={() => setMaking(false)} />}
    </PeoplePage>
  );
}

function Tokens() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const me = useMe();
  const places = usePlaces();
  const users = useQuery(query("listUsers")).data?.items ?? [];
  const list = useInfiniteQuery(pagesQuery("listTokens", { query: { ...search, limit: PAGE_ROWS } }));
  const show = (change: TokensSearch): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const user_names = new Map(users.map(({ id, name }) => [id, name]));
  return (
    <>
      <div className="mb-3 flex flex-wrap gap-2">
        <FilterSelect
          label="Status"
          value={search.status}
          options={TOKEN_STATUSES.map((value) => ({ value, label: value }))}
          onChange={(status) => show({ status: status as TokensSearch["status"] })}
        />
        <FilterSelect
          label="User"
          value={search.user_id}
          options={users.map(({ id, name }) => ({ value: id, label: name }))}
          onChange={(user_id) => show({ user_id })}
        />
      </div>
      <ListTable
        label="Tokens"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(me.token.id, user_names, places)}
        empty={<NoMatch title="No matching tokens" onShowAll={() => void navigate({ search: {} })} />}
      />
    </>
  );
}

const columns = (own_id: string, user_names: ReadonlyMap<string, string>, { site_names, fleet_names }: Places): Column<Token>[] => [
  {
    name: "Label",
    width: "minmax(7rem,2fr)",
    cell: ({ id, label, prefix }) => (
      <span className="flex min-w-0 items-center gap-2">
        <Text line className="font-medium">
          {label ?? prefix}
        </Text>
        {id === own_id && <Badge tone="info">current</Badge>}
      </span>
    ),
  },
  {
    name: "Owner",
    width: "minmax(5rem,1.5fr)",
    priority: 2,
    cell: ({ user_id }) =>
      user_id === null ? <span className="text-muted">organization</span> : <Text line>{user_names.get(user_id) ?? user_id}</Text>,
  },
  { name: "Role", width: "5rem", cell: ({ role }) => role },
  {
    name: "Access",
    width: "minmax(6rem,1.5fr)",
    priority: 3,
    cell: ({ scopes }) => <Text line>{scopeWords(scopes, site_names, fleet_names)}</Text>,
  },
  { name: "Status", width: "6rem", cell: ({ status }) => <StatusBadge status={status} /> },
  { name: "Prefix", width: "8rem", priority: 3, cell: ({ prefix }) => <code className="font-mono text-xs">{prefix}</code> },
  { name: "Last used", width: "6.5rem", priority: 2, cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  { name: "Expires", width: "6.5rem", priority: 3, cell: ({ expires_at }) => <Time at={expires_at} /> },
  {
    name: "",
    width: "2rem",
    cell: (token) => <TokenMenu token={token} of={token.user_id === null ? undefined : user_names.get(token.user_id)} />,
  },
];
