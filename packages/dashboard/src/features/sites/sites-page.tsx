import type { Site } from "@roamfleet/protocol/routes";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { pagesQuery } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { type Column, EmptyState, ListActions, ListTable, NoMatch, PageHeader, SearchInput, Text, Time } from "../../ui/index.ts";
import { siteLines } from "./site-lines.ts";
import { NewSite, SiteMenu } from "./site-menu.tsx";

const route = getRouteApi("/app/sites");
const PAGE_ROWS = 200;

/** The list of sites. */
export function SitesPage() {
  const { q } = route.useSearch();
  const navigate = route.useNavigate();
  const may_change = useMay("operator");
  const [is_making, setMaking] = useState(false);
  const list = useInfiniteQuery(pagesQuery("listSites", { query: { q, limit: PAGE_ROWS } }));
  return (
    <>
      <PageHeader
        title="Sites"
        label="Sites"
        actions={<ListActions verb="New site" onMake={may_change ? () => setMaking(true) : undefined} command={siteLines.list} />}
      />
      <div className="mb-3">
        <SearchInput
          label="Search by name"
          value={q ?? ""}
          onChange={(event) => void navigate({ search: { q: event.target.value || undefined }, replace: true })}
        />
      </div>
      <ListTable
        label="Sites"
        list={list}
        rowKey={({ id }) => id}
        columns={COLUMNS}
        onOpen={({ id }) => void navigate({ to: "/sites/$id", params: { id } })}
        empty={
          q === undefined ? (
            <EmptyState title="No sites yet" command={siteLines.create("")}>
              A site is a place with fleets, such as a warehouse, a hospital ward or a field.
            </EmptyState>
          ) : (
            <NoMatch title="No matching sites" onShowAll={() => void navigate({ search: {} })} />
          )
        }
      />
      {is_making && <NewSite onClose={() => setMaking(false)} />}
    </>
  );
}

const COLUMNS: readonly Column<Site>[] = [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => (
      <Link to="/sites/$id" params={{ id }} className="font-medium hover:underline">
        <Text line>{name}</Text>
      </Link>
    ),
  },
  { name: "Online", width: "8rem", align: "right", cell: ({ robot_count, online_count }) => `${online_count} of ${robot_count}` },
  { name: "Created", width: "8rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "2rem", cell: (site) => <SiteMenu site={site} /> },
];
