import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { Fleet } from "@roamfleet/protocol/routes";
import { useState } from "react";
import { usePlaces } from "../../api/places.ts";
import { pagesQuery } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  type Column,
  EmptyState,
  FilterSelect,
  ListActions,
  ListTable,
  NoMatch,
  PageHeader,
  SearchInput,
  Text,
} from "../../ui/index.ts";
import { DesiredTags } from "./desired-tags.tsx";
import { FleetMenu } from "./fleet-menu.tsx";
import { fleetLines } from "./fleet-lines.ts";
import { NewFleet } from "./new-fleet.tsx";

export interface FleetsSearch {
  q?: string | undefined;
  site_id?: string | undefined;
}

const route = getRouteApi("/app/fleets");
const PAGE_ROWS = 200;

/** All fleets with their releases and online robots. */
export function FleetsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const may_change = useMay("operator");
  const [is_making, setMaking] = useState(false);
  const { sites, site_names } = usePlaces();
  const list = useInfiniteQuery(pagesQuery("listFleets", { query: { ...search, limit: PAGE_ROWS } }));
  const show = (change: FleetsSearch): void => void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
  const is_filtered = search.q !== undefined || search.site_id !== undefined;
  return (
    <>
      <PageHeader
        title="Fleets"
        label="Fleets"
        actions={<ListActions verb="New fleet" onMake={may_change ? () => setMaking(true) : undefined} command={fleetLines.list} />}
      />
      <div className="mb-3 flex flex-wrap gap-2">
        <SearchInput label="Search by name" value={search.q ?? ""} onChange={(event) => show({ q: event.target.value || undefined })} />
        <FilterSelect
          label="Site"
          value={search.site_id}
          options={sites.map(({ id, name }) => ({ value: id, label: name }))}
          onChange={(site_id) => show({ site_id })}
        />
      </div>
      <ListTable
        label="Fleets"
        list={list}
        rowKey={({ id }) => id}
        columns={columns(site_names)}
        onOpen={({ id }) => void navigate({ to: "/fleets/$id", params: { id } })}
        empty={
          is_filtered ? (
            <NoMatch title="No matching fleets" onShowAll={() => void navigate({ search: {} })} />
          ) : (
            <EmptyState title="No fleets yet" command={fleetLines.create("", "")}>
              A fleet is a group of robots at one site that receive the same releases and config.
            </EmptyState>
          )
        }
      />
      {is_making && <NewFleet {...(search.site_id === undefined ? {} : { site_id: search.site_id })} onClose={() => setMaking(false)} />}
    </>
  );
}

const columns = (site_names: ReadonlyMap<string, string>): Column<Fleet>[] => [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => (
      <Link to="/fleets/$id" params={{ id }} className="font-medium hover:underline">
        <Text line>{name}</Text>
      </Link>
    ),
  },
  {
    name: "Site",
    width: "minmax(6rem,1fr)",
    priority: 2,
    cell: ({ site_id }) => (
      <Link to="/sites/$id" params={{ id: site_id }} className="hover:underline">
        <Text line>{site_names.get(site_id) ?? site_id}</Text>
      </Link>
    ),
  },
  { name: "Online", width: "7rem", align: "right", cell: ({ robot_count, online_count }) => `${online_count} of ${robot_count}` },
  { name: "Current release", width: "minmax(8rem,2fr)", priority: 2, cell: ({ desired }) => <DesiredTags desired={desired} /> },
  {
    name: "New robots",
    width: "10rem",
    priority: 3,
    cell: ({ follow }) => <Badge tone={follow ? "ok" : "idle"}>{follow ? "auto-update" : "no auto-update"}</Badge>,
  },
  { name: "", width: "2rem", cell: (fleet) => <FleetMenu fleet={fleet} /> },
];
