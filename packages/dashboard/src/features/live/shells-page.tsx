import { shellEndText } from "@roamfleet/protocol/paths";
import type { RobotShellSession } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useLivePages } from "../../api/live-pages.ts";
import { query } from "../../api/queries.ts";
import { SHELL_STATUSES, type ShellsSearch } from "../../search.ts";
import {
  Badge,
  Button,
  Bytes,
  type Column,
  Command,
  EmptyState,
  type Filters,
  FilterSelect,
  ListTable,
  NameLink,
  NoMatch,
  PageHeader,
  StatusBadge,
  TextLine,
  Time,
  useFilters,
} from "../../ui/index.ts";

const COLUMNS: readonly Column<RobotShellSession>[] = [
  {
    name: "Robot",
    width: "minmax(7rem, 2fr)",
    cell: ({ id, robot_name }) => <NameLink to="/shells/$id" params={{ id }} name={robot_name} />,
  },
  {
    name: "User",
    width: "minmax(6rem, 1.5fr)",
    priority: 2,
    cell: ({ actor }) => <TextLine>{actor.name ?? actor.id ?? actor.type}</TextLine>,
  },
  { name: "Started", width: "minmax(6rem, 1fr)", cell: ({ started_at }) => <Time at={started_at} /> },
  {
    name: "Command",
    width: "minmax(6rem, 1.5fr)",
    priority: 3,
    cell: ({ app, program }) => <TextLine>{`${program ?? "login shell"}${app === null ? "" : ` in ${app}`}`}</TextLine>,
  },
  { name: "Status", width: "6.5rem", cell: ({ status }) => <StatusBadge status={status} /> },
  {
    name: "Result",
    width: "minmax(9rem, 1.5fr)",
    priority: 3,
    cell: ({ exit_code, reason }) => (
      <TextLine>{exit_code === null ? (reason === null ? "" : shellEndText(reason)) : `exit code ${exit_code}`}</TextLine>
    ),
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
  const filters = useFilters(useSearch({ from: "/app/shells" }));
  const { search, change, clear, is_filtered } = filters;
  const navigate = useNavigate();
  const list = useLivePages("listAllShellSessions", { query: search });
  return (
    <>
      <PageHeader
        title="Shell sessions"
        label="Shell sessions"
        meta="All shells that were opened on robots. Their output is recorded, and admins can replay it."
      />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <FilterSelect label="Status" value={search.status} options={SHELL_STATUSES} onChange={(status) => change({ status })} />
        <Chosen {...filters} />
      </div>
      <ListTable
        label="Shell sessions"
        list={list}
        columns={COLUMNS}
        onOpen={({ id }) => void navigate({ to: "/shells/$id", params: { id } })}
        empty={
          is_filtered ? (
            <NoMatch title="No matching shell sessions" onClear={clear} />
          ) : (
            <EmptyState title="No shell sessions yet">
              Open a shell on the page of a robot, or with <code className="font-mono whitespace-nowrap">rf robots shell</code>. Its
              recording then appears here.
            </EmptyState>
          )
        }
      />
      {search.robot_id !== undefined && (
        <div className="mt-3">
          <Command>{`rf robots sessions list ${search.robot_id}`}</Command>
        </div>
      )}
    </>
  );
}

/** The active filters by robot and user. */
function Chosen({ search: { robot_id, actor_id, status }, clear }: Filters<ShellsSearch>) {
  const robot = useQuery({ ...query("getRobot", { params: { id: robot_id ?? "" } }), enabled: robot_id !== undefined });
  if (robot_id === undefined && actor_id === undefined) return null;
  return (
    <>
      <span className="min-w-0 text-muted [overflow-wrap:anywhere]">
        Filtered by{" "}
        {[robot_id !== undefined && `robot ${robot.data?.data.name ?? robot_id}`, actor_id !== undefined && `user ${actor_id}`]
          .filter(Boolean)
          .join(" and ")}
      </span>
      <Button onClick={() => clear({ status })}>Clear</Button>
    </>
  );
}
