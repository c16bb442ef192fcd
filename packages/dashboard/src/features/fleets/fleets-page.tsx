import type { Fleet } from "@roamfleet/protocol/routes";
import { getRouteApi } from "@tanstack/react-router";
import { useLivePages } from "../../api/live-pages.ts";
import { usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  type Column,
  EmptyState,
  FilterSelect,
  LinkButton,
  ListActions,
  ListTable,
  namedOptions,
  NameLink,
  NoMatch,
  PageHeader,
  TypedSearch,
  useFilters,
} from "../../ui/index.ts";
import { ViewsMenu } from "../views/views-menu.tsx";
import { fleetLines, FleetMenu, NewFleet } from "./fleet-menu.tsx";

const route = getRouteApi("/app/fleets");

/** All fleets with their releases and online robots. */
export function FleetsPage() {
  const { search, change, clear, is_filtered } = useFilters(route.useSearch());
  const navigate = route.useNavigate();
  const may_change = useMay("operator");
  const { sites, site_names, is_read } = usePlaces();
  const list = useLivePages("listFleets", { query: search });
  return (
    <>
      <PageHeader
        title="Fleets"
        label="Fleets"
        actions={
          <>
            <ViewsMenu page="fleets" search={search} />
            <ListActions
              verb="New fleet"
              renderDialog={may_change && ((close) => <NewFleet site_id={search.site_id} onClose={close} />)}
              command={fleetLines.list}
            />
          </>
        }
      />
      <div className="mb-3 flex flex-wrap gap-2">
        <TypedSearch label="Search by name" value={search.q} onValue={(q) => change({ q })} />
        <FilterSelect label="Site" value={search.site_id} options={namedOptions(sites)} onChange={(site_id) => change({ site_id })} />
      </div>
      <ListTable
        label="Fleets"
        list={list}
        columns={columns(site_names)}
        onOpen={({ id }) => void navigate({ to: "/fleets/$id", params: { id } })}
        empty={
          is_filtered ? (
            <NoMatch title="No matching fleets" onClear={clear} />
          ) : (
            <EmptyState
              title="No fleets yet"
              command={fleetLines.create("", "")}
              actions={may_change && is_read && sites.length === 0 && <LinkButton to="/sites">Create a site first</LinkButton>}
            >
              A fleet is a group of robots at one site that receive the same releases and config.
            </EmptyState>
          )
        }
      />
    </>
  );
}

const columns = (site_names: ReadonlyMap<string, string>): Column<Fleet>[] => [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => <NameLink to="/fleets/$id" params={{ id }} name={name} className="font-medium" />,
  },
  {
    name: "Site",
    width: "minmax(6rem,1fr)",
    priority: 2,
    cell: ({ site_id }) => <NameLink to="/sites/$id" params={{ id: site_id }} name={site_names.get(site_id) ?? site_id} />,
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

/** The current release of each app of a fleet, on one line. */
function DesiredTags({ desired }: { desired: Fleet["desired"] }) {
  const apps = Object.entries(desired);
  if (apps.length === 0) return <span className="text-muted">no release</span>;
  return (
    <span className="flex min-w-0 gap-2">
      {apps.map(([app, { id, tag }]) => (
        <NameLink key={app} to="/releases/$id" params={{ id }} name={tag} />
      ))}
    </span>
  );
}
