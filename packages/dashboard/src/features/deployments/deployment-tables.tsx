import type { RouteName } from "@roamfleet/protocol/paths";
import type { ConfigDeployment, Deployment } from "@roamfleet/protocol/routes";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useCallback, useEffect, useMemo, useRef } from "react";
import { useChanges } from "../../api/events.ts";
import { type Change, type ChangeSummary } from "../../api/stale.ts";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, usePlaces } from "../../api/queries.ts";
import { refetchQueries } from "../../api/query-client.ts";
import { useMay } from "../../api/session.ts";
import { type DeploymentsSearch, hasFilters } from "../../search.ts";
import {
  type Column,
  DeploymentStatusBadge,
  EmptyState,
  LinkButton,
  ListTable,
  NameLink,
  NoMatch,
  TextLine,
  Time,
} from "../../ui/index.ts";
import { ActorName, CountsBar, countsText, TargetLink, TargetName } from "./deployment-parts.tsx";

/** Converts the filters to the query of the API. */
const deploymentsQuery = ({ tab: _, following, ...query }: DeploymentsSearch) => ({
  ...query,
  ...(following === true || query.robot_id !== undefined ? {} : { cause: "request" as const }),
});

interface Naming<Row> {
  /** Header, width and cell of the table's first column, which names what a deployment installs. */
  title: string;
  width: string;
  cell: (row: Row) => ReactNode;
  nameOf: (row: Row) => string;
  startOf: (row: Row) => string | null;
  /** Decides at which screen widths the column with the robot counts is shown (see `priority` of Column). */
  counts_priority: 1 | 2;
}

const columnsWith = <Row extends Deployment | ConfigDeployment>(
  { title, width, cell, nameOf, startOf, counts_priority }: Naming<Row>,
  places: Places,
): Column<Row>[] => [
  {
    name: title,
    width,
    cell: (row) => (
      <>
        {cell(row)}
        {/* Show the target here on narrow screens, which have no target column. */}
        <TargetName target={row} className="text-xs text-muted sm:hidden" />
      </>
    ),
  },
  { name: "Target", width: "minmax(0, 1.5fr)", priority: 2, cell: (row) => <TargetLink target={row} places={places} /> },
  { name: "Status", width: "8.5rem", cell: (deployment) => <DeploymentStatusBadge deployment={deployment} /> },
  {
    name: "Robots",
    width: "minmax(11rem, 1.2fr)",
    priority: counts_priority,
    cell: (row) => (
      <span className="block min-w-0">
        <span className="mb-0.5 block text-xs text-muted tabular-nums">
          <TextLine>{countsText(row.counts)}</TextLine>
        </span>
        <CountsBar counts={row.counts} label={`Robots of ${nameOf(row)}`} />
      </span>
    ),
  },
  {
    name: "Started",
    width: "7rem",
    priority: 3,
    cell: (row) => (
      <>
        {row.status === "scheduled" && "starts "}
        {timeOrDash(startOf(row))}
      </>
    ),
  },
  { name: "Finished", width: "7rem", priority: 3, cell: ({ finished_at }) => timeOrDash(finished_at) },
  { name: "Created by", width: "minmax(0, 8rem)", priority: 3, cell: ({ created_by }) => <ActorName actor={created_by} /> },
];

const timeOrDash = (at: string | null): ReactNode => (at === null ? <span className="text-muted">—</span> : <Time at={at} />);

const RELEASES: Naming<Deployment> = {
  title: "Release",
  width: "minmax(0, 1.4fr)",
  cell: ({ id, release, retry_of, rollback_of }) => (
    <span className="flex min-w-0 items-baseline gap-2">
      <NameLink to="/deployments/$id" params={{ id }} name={release.tag === "" ? "deleted release" : release.tag} className="font-medium" />
      <span className="shrink-0 text-xs text-muted">{retry_of !== null ? "retry" : rollback_of !== null ? "rollback" : ""}</span>
    </span>
  ),
  nameOf: ({ release }) => release.tag,
  startOf: ({ started_at, status, scheduled_at }) => started_at ?? (status === "scheduled" ? scheduled_at : null),
  counts_priority: 2,
};

const CONFIGS: Naming<ConfigDeployment> = {
  title: "Config",
  width: "minmax(0, 1.2fr)",
  cell: ({ id, namespace }) => (
    <NameLink to="/config-deployments/$id" params={{ id }} name={namespace ?? "all namespaces"} className="font-medium" />
  ),
  nameOf: ({ namespace }) => namespace ?? "all namespaces",
  startOf: ({ started_at }) => started_at,
  counts_priority: 1,
};

interface TableProps {
  search: DeploymentsSearch;
  onClear: () => void;
}

interface Selection {
  selected: ReadonlySet<string>;
  onSelect: (keys: ReadonlySet<string>) => void;
}

/** A table of deployments. Two can be selected for comparison. */
export function DeploymentTable({ search, onClear, ...selection }: TableProps & Selection) {
  const navigate = useNavigate();
  const places = usePlaces();
  const list = useLivePages("listDeployments", { query: deploymentsQuery(search) });
  useFreshCounts("listDeployments", "target");
  const columns = useMemo(() => columnsWith(RELEASES, places), [places]);
  const is_filtered = hasFilters({ ...search, tab: undefined, following: undefined });
  return (
    <ListTable
      label="Deployments"
      list={list}
      placeholder_rows={10}
      columns={columns}
      onOpen={({ id }) => void navigate({ to: "/deployments/$id", params: { id } })}
      height="100%"
      empty={<NoDeployments is_filtered={is_filtered} onClear={onClear} />}
      {...selection}
    />
  );
}

function NoDeployments({ is_filtered, onClear }: { is_filtered: boolean; onClear: () => void }) {
  const may_deploy = useMay("operator");
  if (is_filtered)
    return (
      <NoMatch title="No matching deployments" onClear={onClear}>
        No deployment matches all filters.
      </NoMatch>
    );
  return (
    <EmptyState
      title="No deployments yet"
      command="rf deploy RELEASE --fleet FLEET"
      actions={
        may_deploy && (
          <LinkButton look="primary" to="/deployments/new">
            Deploy a release
          </LinkButton>
        )
      }
    >
      A deployment installs a release on a robot or a fleet. Deployments and their progress appear here.
    </EmptyState>
  );
}

/** A table of config deployments. */
export function ConfigDeploymentTable({ search, onClear }: TableProps) {
  const navigate = useNavigate();
  const places = usePlaces();
  const { release_id: _, ...query } = deploymentsQuery(search);
  const list = useLivePages("listConfigDeployments", { query });
  useFreshCounts("listConfigDeployments", "config_target");
  const columns = useMemo(() => columnsWith(CONFIGS, places), [places]);
  const is_filtered = hasFilters({ ...query, cause: undefined });
  return (
    <ListTable
      label="Config deployments"
      list={list}
      placeholder_rows={10}
      columns={columns}
      onOpen={({ id }) => void navigate({ to: "/config-deployments/$id", params: { id } })}
      height="100%"
      empty={
        is_filtered ? (
          <NoMatch title="No matching config deployments" onClear={onClear}>
            No config deployment matches all filters.
          </NoMatch>
        ) : (
          <EmptyState
            title="No config deployments yet"
            actions={<LinkButton to="/configs">Go to configs</LinkButton>}
            command="rf configs deploy --fleet FLEET"
          >
            Set a config value, preview the change and deploy it.
          </EmptyState>
        )
      }
    />
  );
}

/** Refetch interval of a list of deployments while their robots change status. Each such change changes the counts in the list. */
const REREAD_MS = 2_000;

/** Keeps the counts in a list of deployments up to date. Changes of single robots do not invalidate lists. */
function useFreshCounts(name: RouteName, kind: "target" | "config_target"): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  useChanges(
    useCallback(
      (change: Change | ChangeSummary) => {
        if (change.kind !== kind || timer.current !== undefined) return;
        timer.current = setTimeout(() => {
          timer.current = undefined;
          refetchQueries([name]);
        }, REREAD_MS);
      },
      [name, kind],
    ),
  );
}
