import type { DeploymentTarget } from "@roamfleet/protocol/routes";
import { TARGET_STATUSES } from "@roamfleet/protocol/states";
import { useMemo, useState } from "react";
import { useDeferredText } from "./use-deferred-text.ts";
import {
  Button,
  byteText,
  type Column,
  DataTable,
  EmptyState,
  FilterSelect,
  Progress,
  QueryState,
  SearchInput,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import { RobotEvents } from "./event-log.tsx";
import { RobotLink } from "./parts.tsx";
import { reasonAdvice, targetText } from "./reasons.ts";
import type { DeploymentSearch } from "./search.ts";
import { targetKey, useTargets } from "./use-targets.ts";

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

/** Config arrives in the command itself: only releases have a download column. */
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
        <Text line>{targetText(target)}</Text>
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
  deployment: { id, counts },
  waves,
  search,
  onChange,
}: {
  name: "listDeploymentTargets" | "listConfigDeploymentTargets";
  deployment: { id: string; counts: { total: number } };
  waves: number;
  search: DeploymentSearch;
  onChange: (next: DeploymentSearch) => void;
}) {
  const [opened, setOpened] = useState<DeploymentTarget>();
  const list = useTargets(name, id, search);
  const columns = useMemo(() => columnsOf(waves, name === "listDeploymentTargets"), [waves, name]);
  const is_filtered = Object.keys(search).length > 0;
  const rows_shown = Math.min(ROWS_SHOWN_MAX, Math.max(1, list.rows.length));
  return (
    <>
      <TargetFilters waves={waves} search={search} onChange={onChange} />
      <div aria-busy={list.query.isPlaceholderData}>
        <QueryState query={list.query} rows={8}>
          {() => (
            <DataTable
              label="Robots of this deployment"
              columns={columns}
              rows={list.rows}
              rowKey={targetKey}
              onOpen={setOpened}
              onEnd={list.onEnd}
              onRange={list.onRange}
              has_more={list.has_more}
              height={`${HEAD_PX + ROW_PX * rows_shown}px`}
              empty={<NoTargets total={counts.total} is_filtered={is_filtered} onClear={() => onChange({})} />}
            />
          )}
        </QueryState>
      </div>
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

function TargetFilters({
  waves,
  search,
  onChange,
}: {
  waves: number;
  search: DeploymentSearch;
  onChange: (next: DeploymentSearch) => void;
}) {
  const set = (name: keyof DeploymentSearch, value: string | number | undefined): void => {
    const { [name]: _, ...rest } = search;
    onChange(value === undefined ? rest : { ...rest, [name]: value });
  };
  const [text, setText] = useDeferredText(search.q ?? "", (q) => set("q", q === "" ? undefined : q));
  return (
    <div className="mb-3 flex flex-wrap items-center gap-2" role="search" aria-label="Filter robots">
      <SearchInput label="Search robots" value={text} onChange={(event) => setText(event.target.value)} className="!w-48" />
      <FilterSelect
        label="Status"
        value={search.status}
        options={TARGET_STATUSES.map((value) => ({ value, label: value.replaceAll("_", " ") }))}
        onChange={(value) => set("status", value)}
      />
      {waves > 1 && (
        <FilterSelect
          label="Wave"
          value={search.wave === undefined ? undefined : String(search.wave)}
          options={Array.from({ length: waves }, (_, index) => ({ value: String(index + 1), label: `Wave ${index + 1}` }))}
          onChange={(value) => set("wave", value === undefined ? undefined : Number(value))}
        />
      )}
      {Object.keys(search).length > 0 && (
        <Button look="quiet" onClick={() => onChange({})}>
          Clear
        </Button>
      )}
    </div>
  );
}

function NoTargets({ total, is_filtered, onClear }: { total: number; is_filtered: boolean; onClear: () => void }) {
  if (is_filtered && total > 0)
    return (
      <EmptyState title="No matching robots" actions={<Button onClick={onClear}>Show all</Button>}>
        No robot matches all filters.
      </EmptyState>
    );
  return <EmptyState title="No robots yet">Robots appear here when the deployment starts.</EmptyState>;
}
