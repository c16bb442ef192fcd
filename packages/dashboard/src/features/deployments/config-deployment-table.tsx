import type { ConfigDeployment } from "@roamfleet/protocol/routes";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useLivePages } from "../../api/live-pages.ts";
import { type Places, usePlaces } from "../../api/places.ts";
import { Button, type Column, DataTable, EmptyState, LinkButton, QueryState, StatusBadge, Text, Time } from "../../ui/index.ts";
import { Dash } from "./deployment-table.tsx";
import { ActorName, CountsBar, countsText, TargetLink } from "./parts.tsx";
import { type DeploymentsSearch, deploymentsQuery } from "./search.ts";
import { useFreshCounts } from "./use-counts.ts";

const idOf = ({ id }: ConfigDeployment): string => id;

const columnsWith = (places: Places): Column<ConfigDeployment>[] => [
  {
    name: "Config",
    width: "minmax(0, 1.2fr)",
    cell: ({ id, namespace }) => (
      <Link to="/config-deployments/$id" params={{ id }} className="block min-w-0 font-medium hover:underline">
        <Text line>{namespace ?? "all namespaces"}</Text>
      </Link>
    ),
  },
  { name: "Target", width: "minmax(0, 1fr)", priority: 2, cell: (row) => <TargetLink target={row} places={places} /> },
  { name: "Status", width: "8.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Robots",
    width: "minmax(0, 1.2fr)",
    cell: ({ counts, namespace }) => (
      <span className="block min-w-0">
        <span className="mb-0.5 block truncate text-xs text-muted tabular-nums">{countsText(counts)}</span>
        <CountsBar counts={counts} label={`Robots of ${namespace ?? "all namespaces"}`} />
      </span>
    ),
  },
  { name: "Started", width: "7rem", priority: 3, cell: ({ started_at }) => (started_at === null ? <Dash /> : <Time at={started_at} />) },
  {
    name: "Finished",
    width: "7rem",
    priority: 3,
    cell: ({ finished_at }) => (finished_at === null ? <Dash /> : <Time at={finished_at} />),
  },
  { name: "By", width: "minmax(0, 8rem)", priority: 3, cell: ({ created_by }) => <ActorName actor={created_by} /> },
];

/** A table of config deployments. */
export function ConfigDeploymentTable({ search, onClear }: { search: DeploymentsSearch; onClear: () => void }) {
  const navigate = useNavigate();
  const places = usePlaces();
  const { release_id: _, ...query } = deploymentsQuery(search);
  const list = useLivePages("listConfigDeployments", idOf, { query });
  useFreshCounts("listConfigDeployments", "config_target");
  const columns = useMemo(() => columnsWith(places), [places]);
  const is_filtered = Object.keys(query).some((name) => name !== "cause");
  return (
    <div className="min-h-0 flex-1" aria-busy={list.query.isPlaceholderData}>
      <QueryState query={list.query} rows={10}>
        {() => (
          <DataTable
            label="Config deployments"
            columns={columns}
            rows={list.rows}
            rowKey={idOf}
            onOpen={({ id }) => void navigate({ to: "/config-deployments/$id", params: { id } })}
            onEnd={list.onEnd}
            onRange={list.onRange}
            has_more={list.has_more}
            height="100%"
            empty={
              <EmptyState
                title={is_filtered ? "No matching config deployments" : "No config deployments yet"}
                actions={is_filtered ? <Button onClick={onClear}>Show all</Button> : <LinkButton to="/configs">Go to configs</LinkButton>}
                {...(is_filtered ? {} : { command: "rf configs deploy --fleet FLEET" })}
              >
                {is_filtered ? "No config deployment matches all filters." : "Set a config value, preview the change and deploy it."}
              </EmptyState>
            }
          />
        )}
      </QueryState>
    </div>
  );
}
