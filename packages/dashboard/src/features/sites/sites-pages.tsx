import type { FleetOverview, Site } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ChartLine, Plus } from "lucide-react";
import { useState } from "react";
import { DeletePlace, RenamePlace } from "../../api/action-dialogs.tsx";
import { useLivePages } from "../../api/live-pages.ts";
import { query, useAction } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { shellLine } from "../../ui/format.ts";
import {
  Button,
  type Column,
  copyAsRf,
  CopyText,
  EmptyState,
  FormDialog,
  hasFailed,
  LinkButton,
  ListActions,
  ListTable,
  LoadedPage,
  Menu,
  NameInput,
  NameLink,
  NoMatch,
  PageHeader,
  QueryState,
  Section,
  Text,
  Time,
  TypedSearch,
  useFilters,
  useOutage,
} from "../../ui/index.ts";
import { NewFleet, RobotCounts } from "../fleets/fleet-menu.tsx";
import { bySeverity, IncidentList } from "../incidents/incident-parts.tsx";
import { SmallMap } from "../map/small-map.tsx";
import { Figure } from "../overview/figure.tsx";
import { FleetStates } from "../overview/fleet-states.tsx";
import { RecentTimeline } from "../overview/recent-timeline.tsx";
import { useFleetOverview } from "../overview/use-fleet-overview.ts";
import { VersionMix } from "../overview/version-mix.tsx";
import { ViewsMenu } from "../views/views-menu.tsx";

const sitesRoute = getRouteApi("/app/sites");

/** The list of sites. */
export function SitesPage() {
  const { search, change, clear, is_filtered } = useFilters(sitesRoute.useSearch());
  const navigate = sitesRoute.useNavigate();
  const may_change = useMay("operator");
  const list = useLivePages("listSites", { query: search });
  return (
    <>
      <PageHeader
        title="Sites"
        label="Sites"
        actions={
          <>
            <ViewsMenu page="sites" search={search} />
            <ListActions verb="New site" renderDialog={may_change && ((close) => <NewSite onClose={close} />)} command={siteLines.list} />
          </>
        }
      />
      <div className="mb-3">
        <TypedSearch label="Search by name" value={search.q} onValue={(q) => change({ q })} />
      </div>
      <ListTable
        label="Sites"
        list={list}
        columns={COLUMNS}
        onOpen={({ id }) => void navigate({ to: "/sites/$id", params: { id } })}
        empty={
          is_filtered ? (
            <NoMatch title="No matching sites" onClear={clear} />
          ) : (
            <EmptyState title="No sites yet" command={siteLines.create("")}>
              A site is a place where fleets work, such as a warehouse, a hospital ward or a field.
            </EmptyState>
          )
        }
      />
    </>
  );
}

const COLUMNS: readonly Column<Site>[] = [
  {
    name: "Name",
    width: "minmax(8rem,2fr)",
    cell: ({ id, name }) => <NameLink to="/sites/$id" params={{ id }} name={name} className="font-medium" />,
  },
  { name: "Online", width: "8rem", align: "right", cell: ({ robot_count, online_count }) => `${online_count} of ${robot_count}` },
  { name: "Created", width: "8rem", priority: 2, cell: ({ created_at }) => <Time at={created_at} /> },
  { name: "", width: "2rem", cell: (site) => <SiteMenu site={site} /> },
];

const siteRoute = getRouteApi("/app/sites/$id");

/** A site: its robots, incidents, fleets, positions, releases and latest events. */
export function SitePage() {
  const { id } = siteRoute.useParams();
  const site = useQuery(query("getSite", { params: { id } }));
  return (
    <LoadedPage title="Site" query={site}>
      {(data) => <Found key={data.id} site={data} />}
    </LoadedPage>
  );
}

function Found({ site }: { site: Site }) {
  const may_change = useMay("operator");
  const [is_making, setMaking] = useState(false);
  const { id, name, created_at } = site;
  return (
    <>
      <PageHeader
        title={<Text>{name}</Text>}
        label={name}
        meta={
          <>
            <RobotCounts search={{ site_id: id }} {...site} />
            <span>
              created <Time at={created_at} />
            </span>
            <CopyText label="ID" text={id} />
          </>
        }
        actions={
          <>
            <LinkButton to="/explore" search={{ panels: [{ site_id: id, group_by: "fleet" }] }} icon={ChartLine}>
              Metrics
            </LinkButton>
            {may_change && (
              <Button icon={Plus} busy={false} onClick={() => setMaking(true)}>
                New fleet
              </Button>
            )}
            <SiteMenu site={site} />
          </>
        }
      />
      <SiteNumbers site={site} />
      <SiteIncidents site_id={id} />
      <FleetStates site_id={id} is_stale={useOutage() !== undefined} />
      <div className="grid gap-x-6 lg:grid-cols-2">
        <div className="min-w-0">
          <SmallMap title="Map" scope={{ site_id: id }} />
          <VersionMix scope={{ site_id: id }} />
        </div>
        <RecentTimeline site_id={id} />
      </div>
      {is_making && <NewFleet site_id={id} onClose={() => setMaking(false)} />}
    </>
  );
}

const INCIDENTS_SHOWN = 5;
/** More incidents are read than shown, because the most severe ones are not the newest. */
const INCIDENTS_READ = 100;

/** The incidents of the site that are not resolved. */
function SiteIncidents({ site_id }: { site_id: string }) {
  const incidents = useQuery(query("listIncidents", { query: { site_id, unresolved: true, limit: INCIDENTS_READ } }));
  return (
    <Section title="Open incidents" all={{ to: "/incidents", search: { site_id } }}>
      <QueryState query={incidents} rows={2}>
        {({ items }) => <IncidentList incidents={bySeverity(items).slice(0, INCIDENTS_SHOWN)} empty="No open incidents" />}
      </QueryState>
    </Section>
  );
}

/** The robots of the site by state. */
function SiteNumbers({ site: { id: site_id, robot_count, online_count } }: { site: Site }) {
  const read = useFleetOverview({ site_id });
  const overview = read.data?.data;
  return (
    <div className="mb-6 grid grid-cols-2 gap-3 sm:grid-cols-3 xl:flex">
      <Figure
        label="online"
        value={`${online_count.toLocaleString()} of ${robot_count.toLocaleString()}`}
        link={{ to: "/robots", search: { site_id } }}
      />
      {hasFailed(read) &&
        ["offline", "unhealthy"].map((label) => (
          <Figure key={label} label={`${label}: not loaded`} value="—" link={{ to: "/robots", search: { site_id } }} />
        ))}
      {/* The sums are those of all fleets only if the overview contains all of them. */}
      {overview !== undefined && overview.fleet_count === overview.fleets.length && <Problems site_id={site_id} fleets={overview.fleets} />}
    </div>
  );
}

function Problems({ site_id, fleets }: { site_id: string; fleets: FleetOverview["fleets"] }) {
  const sum = (count: (fleet: FleetOverview["fleets"][number]) => number): number => fleets.reduce((all, fleet) => all + count(fleet), 0);
  const never_connected = sum((fleet) => fleet.never_connected);
  const offline = sum(({ total, online }) => total - online) - never_connected;
  const unhealthy = sum((fleet) => fleet.unhealthy);
  return (
    <>
      <Figure
        label="offline"
        value={offline}
        link={{ to: "/robots", search: { site_id, status: "offline" } }}
        tone={offline > 0 ? "text-warn" : ""}
      />
      {never_connected > 0 && (
        <Figure label="never connected" value={never_connected} link={{ to: "/robots", search: { site_id, status: "never_connected" } }} />
      )}
      <Figure
        label="unhealthy"
        value={unhealthy}
        link={{ to: "/robots", search: { site_id, health: "failing" } }}
        tone={unhealthy > 0 ? "text-bad" : ""}
      />
    </>
  );
}

/** The actions on a site. */
function SiteMenu({ site: { id, name } }: { site: Site }) {
  const may_change = useMay("operator");
  const may_delete = useMay("admin");
  const navigate = useNavigate();
  const place = { kind: "site", id, name } as const;
  return (
    <Menu
      label={`Actions for ${name.slice(0, 80)}`}
      entries={[
        { label: "Show robots", onSelect: () => void navigate({ to: "/robots", search: { site_id: id } }) },
        { label: "Show fleets", onSelect: () => void navigate({ to: "/fleets", search: { site_id: id } }) },
        may_change && {
          label: "Rename…",
          renderDialog: (close) => <RenamePlace {...place} onClose={close} command={(typed) => siteLines.rename(id, typed)} />,
        },
        copyAsRf(siteLines.show(id)),
        may_delete && { label: "Delete…", danger: true, renderDialog: (close) => <DeleteSite id={id} name={name} onClose={close} /> },
      ]}
    />
  );
}

function NewSite({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const navigate = useNavigate();
  const making = useAction("createSite", {
    quiet: true,
    onSuccess: ({ data: { id } }) => void navigate({ to: "/sites/$id", params: { id } }),
  });
  return (
    <FormDialog
      title="New site"
      verb="Create site"
      onClose={onClose}
      sending={making}
      command={siteLines.create(name)}
      onSubmit={() => making.mutate({ body: { name: name.trim() } })}
    >
      <NameInput value={name} onValue={setName} autoFocus />
    </FormDialog>
  );
}

function DeleteSite({ id, name, onClose }: { id: string; name: string; onClose: () => void }) {
  const navigate = useNavigate();
  const fleets = useQuery(query("listFleets", { query: { site_id: id, limit: 1 } })).data?.items;
  return (
    <DeletePlace
      kind="site"
      id={id}
      name={name}
      onClose={onClose}
      full={
        fleets &&
        fleets.length > 0 && {
          text: "The site has fleets. Delete them first.",
          verb: "Show fleets",
          onShow: () => void navigate({ to: "/fleets", search: { site_id: id } }),
        }
      }
      consequence="Deletes the site, which has no fleets."
      command={siteLines.delete(id)}
    />
  );
}

/** The `rf` commands equivalent to the actions on sites. */
const siteLines = {
  list: "rf sites list",
  show: (id: string) => shellLine("rf", "api", "GET", `/api/sites/${id}`),
  create: (name: string) => shellLine("rf", "sites", "create", name || "NAME"),
  rename: (id: string, name: string) => shellLine("rf", "api", "PATCH", `/api/sites/${id}`, "-f", `name=${name || "NAME"}`),
  delete: (id: string) => shellLine("rf", "api", "DELETE", `/api/sites/${id}`),
};
