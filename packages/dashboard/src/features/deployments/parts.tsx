import type { Deployment } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Places } from "../../api/places.ts";
import { query } from "../../api/queries.ts";
import { type Part, Progress, Text } from "../../ui/index.ts";

type Counts = Deployment["counts"];

/** Returns the robots of a deployment by status as parts of a progress bar, finished ones first. */
export const partsOf = (counts: Counts): Part[] => allParts(counts).filter(({ value }) => value > 0);

const allParts = (counts: Counts): Part[] => [
  { value: counts.applied, tone: "ok", label: "applied" },
  { value: counts.rolled_back, tone: "warn", label: "rolled back" },
  { value: counts.failed, tone: "bad", label: "failed" },
  { value: counts.cancelled, tone: "idle", label: "cancelled" },
  { value: counts.active, tone: "info", label: "updating" },
];

export const CountsBar = ({ counts, label }: { counts: Counts; label: string }) => (
  <Progress label={label} total={counts.total} parts={partsOf(counts)} />
);

/** Formats the progress: "12 of 40, 1 failed". */
export function countsText({ applied, failed, rolled_back, total }: Counts): string {
  if (total === 0) return "not started";
  const parts = [
    `${applied.toLocaleString()} of ${total.toLocaleString()}`,
    failed > 0 && `${failed.toLocaleString()} failed`,
    rolled_back > 0 && `${rolled_back.toLocaleString()} rolled back`,
  ];
  return parts.filter((part) => part !== false).join(", ");
}

interface Target {
  target_kind: "robot" | "fleet";
  robot_id: string | null;
  fleet_id: string | null;
}

/** A link to the target of a deployment, by name. */
export function TargetLink({ target, places }: { target: Target; places: Places }) {
  if (target.fleet_id !== null) {
    return (
      <Link to="/fleets/$id" params={{ id: target.fleet_id }} className="block min-w-0 hover:underline">
        <Text line>{places.fleet_names.get(target.fleet_id) ?? target.fleet_id}</Text>
      </Link>
    );
  }
  return target.robot_id === null ? <Text>{null}</Text> : <RobotLink id={target.robot_id} />;
}

/** A link to a robot. Shows its ID until the name is loaded. */
export function RobotLink({ id, name }: { id: string; name?: string | undefined }) {
  const robot = useQuery({ ...query("getRobot", { params: { id } }), enabled: name === undefined });
  return (
    <Link to="/robots/$id" params={{ id }} className="block min-w-0 hover:underline">
      <Text line>{name ?? robot.data?.data.name ?? id}</Text>
    </Link>
  );
}

/** The name of the user or token that created something. */
export const ActorName = ({ actor }: { actor: Deployment["created_by"] }) => (
  <Text line>{actor.name ?? actor.type.replaceAll("_", " ")}</Text>
);
