import type { DeploymentTarget } from "@roamfleet/protocol/routes";
import { TARGET_STATUSES } from "@roamfleet/protocol/states";
import type { InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useChanges } from "../../api/events.ts";
import { type Change, type ChangeSummary, isSummary } from "../../api/stale.ts";
import { useLivePages } from "../../api/live-pages.ts";
import { queryClient } from "../../api/query-client.ts";
import type { DeploymentSearch } from "../../search.ts";
import {
  Button,
  byteText,
  type Column,
  EmptyState,
  type Filters,
  FilterSelect,
  ListTable,
  NoMatch,
  Progress,
  StatusBadge,
  TextLine,
  Time,
  TypedSearch,
} from "../../ui/index.ts";
import { RobotEvents, RobotLink } from "./deployment-parts.tsx";
import { reasonAdvice, targetText } from "./deployment-text.ts";
import { latestStatuses, patchPages } from "./patch-targets.ts";

const ROW_PX = 40;
const HEAD_PX = 38;
const ROWS_SHOWN_MAX = 14;

const progressOf = ({ progress }: DeploymentTarget) => {
  if (progress === null) return <span className="text-muted">—</span>;
  const { bytes_done, bytes_total } = progress;
  return (
    <span className="block">
      <span className="block truncate text-xs text-muted tabular-nums">
        {byteText(bytes_done)} of {byteText(bytes_total)}
      </span>
      <Progress
        label="Downloaded"
        total={Math.max(1, bytes_total)}
        parts={[{ value: bytes_done, tone: "info", label: "bytes downloaded" }]}
      />
    </span>
  );
};

/** Returns the columns of the table. Config deployments have no download column, because robots receive configs in messages of the link. */
const columnsOf = (waves: number, is_fetched: boolean): Column<DeploymentTarget>[] => [
  { name: "Robot", width: "minmax(0, 1.2fr)", cell: ({ robot_id, robot_name }) => <RobotLink id={robot_id} name={robot_name} /> },
  ...(waves > 1
    ? [{ name: "Wave", width: "3.5rem", priority: 3 as const, align: "right" as const, cell: ({ wave }: DeploymentTarget) => wave + 1 }]
    : []),
  { name: "Status", width: "8.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Details",
    width: "minmax(0, 2fr)",
    priority: 2,
    cell: (target) => (
      <span title={target.reason === null ? undefined : reasonAdvice(target.reason)}>
        <TextLine>{targetText(target)}</TextLine>
      </span>
    ),
  },
  { name: "Attempts", width: "5rem", priority: 3, align: "right", cell: ({ attempt }) => attempt },
  ...(is_fetched ? [{ name: "Downloaded", width: "9rem", priority: 3 as const, cell: progressOf }] : []),
  { name: "Changed", width: "6.5rem", priority: 2, cell: ({ updated_at }) => <Time at={updated_at} /> },
];

/** The robots of a deployment, updated live. A row opens the events of its robot. */
export function TargetTable({
  name,
  deployment: { id, counts, finished_at },
  waves,
  filters,
}: {
  name: ListName;
  deployment: { id: string; counts: { total: number }; finished_at: string | null };
  waves: number;
  filters: Filters<DeploymentSearch>;
}) {
  const [opened, setOpened] = useState<DeploymentTarget>();
  const list = useTargets(name, id, filters.search);
  const columns = useMemo(() => columnsOf(waves, name === "listDeploymentTargets"), [waves, name]);
  const rows_shown = Math.min(ROWS_SHOWN_MAX, Math.max(1, list.rows.length));
  return (
    <>
      <TargetFilters waves={waves} {...filters} />
      <ListTable
        label="Robots of this deployment"
        list={list}
        columns={columns}
        onOpen={setOpened}
        height={`${HEAD_PX + ROW_PX * rows_shown}px`}
        empty={<NoTargets total={counts.total} has_ended={finished_at !== null} {...filters} />}
      />
      {opened !== undefined && (
        <RobotEvents
          name={name === "listDeploymentTargets" ? "listDeploymentEvents" : "listConfigDeploymentEvents"}
          id={id}
          robot_id={opened.robot_id}
          robot_name={opened.robot_name}
          onClose={() => setOpened(undefined)}
        />
      )}
    </>
  );
}

function TargetFilters({ waves, search, change, clear, is_filtered }: Filters<DeploymentSearch> & { waves: number }) {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter robots">
      <TypedSearch label="Search robots" value={search.q} onValue={(q) => change({ q })} className="sm:!w-48" />
      <FilterSelect label="Status" value={search.status} options={TARGET_STATUSES} onChange={(status) => change({ status })} />
      {waves > 1 && (
        <FilterSelect
          label="Wave"
          value={search.wave === undefined ? undefined : String(search.wave)}
          options={Array.from({ length: waves }, (_, index) => ({ value: String(index + 1), label: `Wave ${index + 1}` }))}
          onChange={(value) => change({ wave: value === undefined ? undefined : Number(value) })}
        />
      )}
      {is_filtered && (
        <Button look="quiet" onClick={() => clear()}>
          Clear
        </Button>
      )}
    </div>
  );
}

function NoTargets({ total, has_ended, is_filtered, clear }: Filters<DeploymentSearch> & { total: number; has_ended: boolean }) {
  if (is_filtered && total > 0)
    return (
      <NoMatch title="No matching robots" onClear={() => clear()}>
        No robot matches all filters.
      </NoMatch>
    );
  if (has_ended) return <EmptyState title="No robots">The deployment ended without robots.</EmptyState>;
  return <EmptyState title="No robots yet">Robots appear here when the deployment starts.</EmptyState>;
}

/** Changes within this time are rendered in one batch, so that the table is rendered at most four times per second. */
const GATHER_MS = 250;

type Pages = InfiniteData<{ items: readonly DeploymentTarget[]; next_cursor: string | null }, string | undefined>;
type ListName = "listDeploymentTargets" | "listConfigDeploymentTargets";

/**
 * Loads the robots of a deployment in pages and updates them live: a change is applied to its row immediately. Visible rows are then
 * refetched for fields that changes do not contain, such as bytes and reasons.
 */
function useTargets(name: ListName, id: string, search: DeploymentSearch) {
  usePatches(name, id);
  const { status, wave, q } = search;
  return useLivePages(name, {
    params: { id },
    query: {
      ...(status === undefined ? {} : { status }),
      ...(wave === undefined ? {} : { wave: wave - 1 }),
      ...(q === undefined ? {} : { q }),
    },
  });
}

function usePatches(name: ListName, id: string): void {
  const gathered = useRef<Change[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), [id]);
  useChanges(
    useCallback(
      (change: Change | ChangeSummary) => {
        // A summary contains only the number of changes: the visible rows are refetched.
        if (isSummary(change) || change.deployment_id !== id || change.status === undefined) return;
        gathered.current.push(change);
        timer.current ??= setTimeout(() => {
          timer.current = undefined;
          const latest = latestStatuses(gathered.current.splice(0), id);
          queryClient.setQueriesData<Pages>({ queryKey: [name, { params: { id } }] }, (data) =>
            data === undefined || !("pages" in data) ? data : { ...data, pages: patchPages(data.pages, latest) },
          );
        }, GATHER_MS);
      },
      [name, id],
    ),
  );
}
