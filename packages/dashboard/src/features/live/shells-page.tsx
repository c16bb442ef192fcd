import type { RobotShellSession } from "@roamfleet/protocol/routes";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { pagesQuery, query, rowsOf } from "../../api/queries.ts";
import {
  Badge,
  Bytes,
  Button,
  type Column,
  Command,
  DataTable,
  EmptyState,
  ErrorState,
  FilterSelect,
  PageHeader,
  Skeleton,
  StatusBadge,
  Text,
  Time,
} from "../../ui/index.ts";
import type { ShellsSearch } from "./shell-search.ts";

const PAGE_ROWS = 100;
const STATUSES = [
  { value: "open", label: "open" },
  { value: "ended", label: "ended" },
  { value: "aborted", label: "aborted" },
];

const COLUMNS: readonly Column<RobotShellSession>[] = [
  {
    name: "Robot",
    width: "minmax(7rem, 2fr)",
    cell: ({ id, robot_name }) => (
      <Link to="/shells/$id" params={{ id }} className="text-ink hover:underline">
        <Text line>{robot_name}</Text>
      </Link>
    ),
  },
  {
    name: "User",
    width: "minmax(6rem, 1.5fr)",
    priority: 2,
    cell: ({ actor }) => <Text line>{actor.name ?? actor.id ?? actor.type}</Text>,
  },
  { name: "Started", width: "minmax(6rem, 1fr)", cell: ({ started_at }) => <Time at={started_at} /> },
  {
    name: "Command",
    width: "minmax(6rem, 1.5fr)",
    priority: 3,
    cell: ({ app, program }) => <Text line>{`${program ?? "login shell"}${app === null ? "" : ` in ${app}`}`}</Text>,
  },
  { name: "State", width: "6.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Result",
    width: "minmax(6rem, 1fr)",
    priority: 3,
    cell: ({ exit_code, reason }) => <Text line>{exit_code === null ? (reason ?? "").replaceAll("_", " ") : `exit ${exit_code}`}</Text>,
  },
  { name: "Output", width: "5rem", priority: 2, align: "right", cell: ({ output_bytes }) => <Bytes count={output_bytes} /> },
  {
    name: "Recording",
    width: "6rem",
    priority: 3,
    cell: ({ recording }) => (recording.status === "kept" ? "kept" : <Badge>deleted</Badge>),
  },
];

/** The list of shell sessions. */
export function ShellsPage() {
  const search = useSearch({ from: "/app/shells" });
  const navigate = useNavigate({ from: "/shells" });
  const list = useInfiniteQuery(pagesQuery("listAllShellSessions", { query: { ...search, limit: PAGE_ROWS } }));
  const rows = useMemo(() => rowsOf(list.data), [list.data]);
  const { fetchNextPage } = list;
  const more = useCallback(() => void fetchNextPage(), [fetchNextPage]);
  return (
    <>
      <PageHeader
        title="Shell sessions"
        label="Shell sessions"
        meta="All shells that were opened on robots. Their output is recorded, and admins can replay it."
      />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <FilterSelect
          label="State"
          value={search.status}
          options={STATUSES}
          onChange={(status) =>
            void navigate({ search: (old) => JSON.parse(JSON.stringify({ ...old, status })) as ShellsSearch, replace: true })
          }
        />
        <Chosen search={search} />
      </div>
      {list.isPending ? (
        <Skeleton rows={8} />
      ) : list.isError && rows.length === 0 ? (
        <ErrorState error={list.error} onRetry={() => void list.refetch()} />
      ) : (
        <DataTable
          label="Shell sessions"
          columns={COLUMNS}
          rows={rows}
          rowKey={({ id }) => id}
          onOpen={({ id }) => void navigate({ to: "/shells/$id", params: { id } })}
          onEnd={more}
          has_more={list.hasNextPage}
          empty={<EmptyState title="No shell sessions yet">Open a shell on the page of a robot, or with `rf robots shell`.</EmptyState>}
        />
      )}
      {search.robot_id !== undefined && (
        <div className="mt-3">
          <Command>{`rf robots sessions list ${search.robot_id}`}</Command>
        </div>
      )}
    </>
  );
}

/** The active filters by robot and user. */
function Chosen({ search: { robot_id, actor_id } }: { search: ShellsSearch }) {
  const navigate = useNavigate({ from: "/shells" });
  const robot = useQuery({ ...query("getRobot", { params: { id: robot_id ?? "" } }), enabled: robot_id !== undefined });
  if (robot_id === undefined && actor_id === undefined) return null;
  return (
    <>
      <span className="min-w-0 text-muted [overflow-wrap:anywhere]">
        Only {robot_id !== undefined && <>of robot {robot.data?.data.name ?? robot_id}</>} {actor_id !== undefined && <>by {actor_id}</>}
      </span>
      <Button onClick={() => void navigate({ search: ({ status }) => (status === undefined ? {} : { status }) })}>Show all</Button>
    </>
  );
}
