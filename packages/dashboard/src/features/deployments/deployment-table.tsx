import type { Deployment } from "@roamfleet/protocol/routes";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, usePlaces } from "../../api/places.ts";
import { useMay } from "../../api/session.ts";
import { Button, type Column, DataTable, EmptyState, LinkButton, QueryState, StatusBadge, Text, Time } from "../../ui/index.ts";
import { ActorName, CountsBar, countsText, TargetLink } from "./parts.tsx";
import { type DeploymentsSearch, deploymentsQuery } from "./search.ts";
import { useFreshCounts } from "./use-counts.ts";

const idOf = ({ id }: Deployment): string => id;

const columnsWith = (places: Places): Column<Deployment>[] => [
  {
    name: "Release",
    width: "minmax(0, 1.4fr)",
    cell: ({ id, release, retry_of, rollback_of }) => (
      <span className="flex min-w-0 items-baseline gap-2">
        <Link to="/deployments/$id" params={{ id }} className="min-w-0 font-medium hover:underline">
          <Text line>{release.tag === "" ? "removed release" : release.tag}</Text>
        </Link>
        <span className="shrink-0 text-xs text-muted">{retry_of !== null ? "retry" : rollback_of !== null ? "rollback" : ""}</span>
      </span>
    ),
  },
  { name: "Target", width: "minmax(0, 1fr)", priority: 2, cell: (row) => <TargetLink target={row} places={places} /> },
  { name: "Status", width: "8.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Robots",
    width: "minmax(0, 1.2fr)",
    priority: 2,
    cell: ({ counts, release }) => (
      <span className="block min-w-0">
        <span className="mb-0.5 block truncate text-xs text-muted tabular-nums">{countsText(counts)}</span>
        <CountsBar counts={counts} label={`Robots of ${release.tag}`} />
      </span>
    ),
  },
  { name: "Started", width: "7rem", priority: 3, cell: (row) => <Started deployment={row} /> },
  {
    name: "Finished",
    width: "7rem",
    priority: 3,
    cell: ({ finished_at }) => (finished_at === null ? <Dash /> : <Time at={finished_at} />),
  },
  { name: "By", width: "minmax(0, 8rem)", priority: 3, cell: ({ created_by }) => <ActorName actor={created_by} /> },
];

export const Dash = () => <span className="text-muted">—</span>;

function Started({ deployment: { started_at, status, scheduled_at } }: { deployment: Deployment }) {
  if (started_at !== null) return <Time at={started_at} />;
  return status === "scheduled" && scheduled_at !== null ? <Time at={scheduled_at} /> : <Dash />;
}

/** A table of deployments. Two can be selected for comparison. */
export function DeploymentTable({
  search,
  selected,
  onSelect,
  onClear,
}: {
  search: DeploymentsSearch;
  selected: ReadonlySet<string>;
  onSelect: (keys: ReadonlySet<string>) => void;
  onClear: () => void;
}) {
  const navigate = useNavigate();
  const places = usePlaces();
  const list = useLivePages("listDeployments", idOf, { query: deploymentsQuery(search) });
  useFreshCounts("listDeployments", "target");
  const columns = useMemo(() => columnsWith(places), [places]);
  return (
    <div className="min-h-0 flex-1" aria-busy={list.query.isPlaceholderData}>
      <QueryState query={list.query} rows={10}>
        {() => (
          <DataTable
            label="Deployments"
            columns={columns}
            rows={list.rows}
            rowKey={idOf}
            onOpen={({ id }) => void navigate({ to: "/deployments/$id", params: { id } })}
            selected={selected}
            onSelect={onSelect}
            onEnd={list.onEnd}
            onRange={list.onRange}
            has_more={list.has_more}
            height="100%"
            empty={
              <NoDeployments is_filtered={Object.keys(search).some((name) => name !== "tab" && name !== "following")} onClear={onClear} />
            }
          />
        )}
      </QueryState>
    </div>
  );
}

function NoDeployments({ is_filtered, onClear }: { is_filtered: boolean; onClear: () => void }) {
  const may_deploy = useMay("operator");
  if (is_filtered)
    return (
      <EmptyState title="No matching deployments" actions={<Button onClick={onClear}>Show all</Button>}>
        No deployment matches all filters.
      </EmptyState>
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
