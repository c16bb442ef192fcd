import type { Robot } from "@roamfleet/protocol/routes";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { ArrowRight } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, useHostedVersion, usePlaces } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import type { RobotsSearch } from "../../search.ts";
import {
  Button,
  type Column,
  ConfigState,
  copyAsRf,
  counted,
  EmptyState,
  HealthBadge,
  LastSeen,
  LinkButton,
  ListTable,
  Menu,
  NameLink,
  PageHeader,
  ReleaseState,
  RobotStatus,
  TableSettings,
  TextLine,
  useFilters,
  useTableView,
} from "../../ui/index.ts";
import { BulkBar } from "./bulk.tsx";
import { AgentVersion } from "./agent-version.tsx";
import { ViewsMenu } from "../views/views-menu.tsx";
import { RobotsFilters } from "./robots-filters.tsx";
import { isFiltered, robotsCommand } from "./robots-search.ts";

const route = getRouteApi("/app/robots");
const NONE: ReadonlySet<string> = new Set();

/** The list of all robots. */
export function RobotsPage() {
  const filters = useFilters(route.useSearch());
  const { search } = filters;
  const navigate = useNavigate();
  const places = usePlaces();
  const may_change = useMay("operator");
  const [selected, setSelected] = useState(NONE);
  const list = useLivePages("listRobots", { query: search });
  const { query, rows, has_more } = list;
  const hosted = useHostedVersion();
  const view = useTableView(
    "robots",
    useMemo(() => robotsColumns(places, hosted), [places, hosted]),
  );
  const chosen = useMemo(() => (selected.size === 0 ? [] : rows.filter(({ id }) => selected.has(id))), [rows, selected]);
  const open = useCallback(({ id }: Robot) => void navigate({ to: "/robots/$id", params: { id } }), [navigate]);
  const { fetchNextPage } = query;
  /** Loads the remaining pages, then selects all robots. */
  const selectAll = useCallback(async () => {
    for (;;) {
      const { data, hasNextPage, isError } = await fetchNextPage();
      setSelected(new Set((data?.pages ?? []).flatMap(({ items }) => items.map(({ id }) => id))));
      if (!hasNextPage || isError) return;
    }
  }, [fetchNextPage]);
  const change = (part: RobotsSearch): void => {
    setSelected(NONE);
    filters.change(part);
  };
  const clear = (): void => {
    setSelected(NONE);
    filters.clear({ sort: search.sort });
  };
  return (
    <div className="flex h-full min-h-96 flex-col">
      <PageHeader
        title="Robots"
        label="Robots"
        actions={
          <>
            <ViewsMenu page="robots" search={search} table={view} />
            {may_change && <LinkButton to="/enrollment/new">Enroll robots</LinkButton>}
            <TableSettings view={view} />
            <Menu label="More" entries={[copyAsRf(robotsCommand(search))]} />
          </>
        }
      />
      <RobotsFilters search={search} places={places} onChange={change} onClear={clear} />
      {chosen.length > 0 && <BulkBar robots={chosen} onClear={() => setSelected(NONE)} {...(has_more ? { onSelectAll: selectAll } : {})} />}
      <ListTable
        label="Robots"
        list={list}
        placeholder_rows={12}
        columns={view.columns}
        is_dense={view.is_dense}
        sort={search.sort}
        onSort={(sort) => change({ sort: sort === "name" ? sort : undefined })}
        onOpen={open}
        {...(may_change ? { selected, onSelect: setSelected } : {})}
        height="100%"
        empty={<NoRobots search={search} onClear={clear} />}
      />
      <Loaded count={rows.length} has_more={has_more} />
    </div>
  );
}

function Loaded({ count, has_more }: { count: number; has_more: boolean }) {
  if (count === 0) return null;
  return (
    <p className="pt-2 text-xs text-muted tabular-nums" role="status">
      {has_more ? `${count.toLocaleString()} robots loaded. Scroll to load more.` : counted(count, "robot")}
    </p>
  );
}

function NoRobots({ search, onClear }: { search: RobotsSearch; onClear: () => void }) {
  if (isFiltered(search))
    return (
      <EmptyState title="No matching robots" actions={<Button onClick={onClear}>Clear filters</Button>} command={robotsCommand(search)}>
        No robot matches all filters.
      </EmptyState>
    );
  return (
    <EmptyState
      title="No robots yet"
      actions={
        <LinkButton look="primary" to="/enrollment/new">
          Enroll the first robot
        </LinkButton>
      }
    >
      Create an enrollment key and run its command on the robot. The robot then appears here automatically.
    </EmptyState>
  );
}

/** Returns the columns of the table. The names of fleets and sites, and the hosted version of the agent, are loaded separately. */
const robotsColumns = ({ fleet_names, site_names }: Places, hosted: string | undefined): readonly Column<Robot>[] => [
  {
    name: "Name",
    width: "minmax(5rem, 1.3fr)",
    sort: "name",
    text: ({ name }) => name,
    cell: ({ id, name }) => <NameLink to="/robots/$id" params={{ id }} name={name} className="font-medium" />,
  },
  {
    name: "Status",
    width: "minmax(5.5rem, 1.45fr)",
    cell: (robot) => <RobotStatus robot={robot} />,
  },
  {
    name: "Health",
    width: "minmax(5.5rem, 1fr)",
    priority: 2,
    cell: (robot) => <HealthBadge robot={robot} />,
  },
  {
    name: "Fleet and site",
    width: "minmax(5rem, 1.4fr)",
    priority: 3,
    cell: ({ fleet_id, site_id }) => (
      <span className="block in-data-dense:flex in-data-dense:items-baseline in-data-dense:gap-2">
        <TextLine className="leading-5">{fleet_names.get(fleet_id) ?? fleet_id}</TextLine>
        <TextLine className="text-xs text-muted">{site_names.get(site_id) ?? site_id}</TextLine>
      </span>
    ),
  },
  { name: "Release", width: "minmax(5rem, 2fr)", priority: 2, cell: (robot) => <ReleaseCell {...robot} /> },
  { name: "Config", width: "minmax(5.5rem, 1.05fr)", priority: 3, cell: ({ config_state }) => <ConfigState state={config_state} /> },
  {
    name: "Agent",
    width: "minmax(4rem, 1.1fr)",
    priority: 3,
    cell: ({ agent_version }) => <AgentVersion version={agent_version} hosted={hosted} />,
  },
  {
    name: "Last seen",
    width: "minmax(4.75rem, 0.8fr)",
    priority: 3,
    align: "right",
    cell: (robot) => <LastSeen robot={robot} />,
  },
];

/**
 * Shows the release of one app: "main", or else the first app. If the app's desired release differs, shows both. Then shows the number of
 * other apps.
 */
function ReleaseCell({ apps, release_state }: Robot) {
  const shown = apps.find(({ app }) => app === "main") ?? apps[0];
  if (shown === undefined) return <span className="text-muted">none</span>;
  const { current, desired } = shown;
  return (
    <span className="flex min-w-0 items-center gap-1" title={shown.app}>
      {current === null ? <span className="text-muted">none</span> : <TextLine>{current.tag}</TextLine>}
      {desired !== null && desired.id !== current?.id && (
        <>
          <ArrowRight size={12} aria-label="changing to" className="shrink-0 text-muted" />
          <TextLine>{desired.tag}</TextLine>
        </>
      )}
      {apps.length > 1 && <span className="shrink-0 text-xs text-muted">and {apps.length - 1} more</span>}
      {release_state === "failed" && <ReleaseState state="failed" />}
    </span>
  );
}
