import type { ConfigDeployment, Deployment, DeploymentEvent } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { type Places, query, usePlaces } from "../../api/queries.ts";
import {
  Dialog,
  NameLink,
  type Part,
  Progress,
  QueryState,
  Section,
  StatusBadge,
  Text,
  TextLine,
  Time,
  withLocalTimes,
} from "../../ui/index.ts";
import { WhyNot } from "./explanation.tsx";

type Counts = Deployment["counts"];

/** Returns the robots of a deployment by status as parts of a progress bar, finished ones first. */
const partsOf = (counts: Counts): Part[] => allParts(counts).filter(({ value }) => value > 0);

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

/** Formats the progress: "12 of 40 applied, 1 failed". */
export function countsText({ applied, failed, rolled_back, total }: Counts): string {
  if (total === 0) return "not started";
  const parts = [
    `${applied.toLocaleString()} of ${total.toLocaleString()} applied`,
    failed > 0 && `${failed.toLocaleString()} failed`,
    rolled_back > 0 && `${rolled_back.toLocaleString()} rolled back`,
  ];
  return parts.filter((part) => part !== false).join(", ");
}

type Target = Pick<Deployment, "robot_id" | "fleet_id" | "selection">;

/** A link to the target of a deployment, by name. A selection has no page, so its name is text. */
export function TargetLink({ target, places }: { target: Target; places: Places }) {
  if (target.selection !== null) return <TextLine>{target.selection}</TextLine>;
  if (target.fleet_id !== null) {
    return <NameLink to="/fleets/$id" params={{ id: target.fleet_id }} name={places.fleet_names.get(target.fleet_id) ?? "a fleet"} />;
  }
  return target.robot_id === null ? <Text>{null}</Text> : <RobotLink id={target.robot_id} />;
}

/** The name of the target of a deployment, where a link is not possible. */
export function TargetName({ target: { fleet_id, robot_id, selection }, className }: { target: Target; className?: string }) {
  const { fleet_names } = usePlaces();
  const robot = useQuery({ ...query("getRobot", { params: { id: robot_id ?? "" } }), enabled: robot_id !== null }).data?.data;
  const name = selection ?? (fleet_id === null ? (robot?.name ?? "one robot") : (fleet_names.get(fleet_id) ?? "a fleet"));
  return <TextLine {...(className === undefined ? {} : { className })}>{`to ${name}`}</TextLine>;
}

/** The title of a deployment: "RELEASE to TARGET". */
export const DeploymentTitle = ({ name, target, places }: { name: string; target: Target; places: Places }) => (
  <span className="flex min-w-0 flex-wrap items-baseline gap-x-2">
    <Text>{name}</Text>
    <span className="font-normal text-muted">to</span>
    <span className="max-w-full min-w-0">
      <TargetLink target={target} places={places} />
    </span>
  </span>
);

/** Renders an optional time for a KeyValue list. Returns false without a time, so that the list omits the row. */
export const exactTime = (at: string | null) => at !== null && <Time at={at} exact />;

/** Returns the times of a deployment for a KeyValue list. */
export const timesOf = (deployment: Deployment | ConfigDeployment) => ({
  Created: exactTime(deployment.created_at),
  Scheduled: exactTime(deployment.scheduled_at),
  Started: exactTime(deployment.started_at),
  Paused: exactTime(deployment.paused_at),
  Cancelled: exactTime(deployment.cancel_requested_at),
  Finished: exactTime(deployment.finished_at),
  Expires: deployment.finished_at === null && exactTime(deployment.expires_at),
});

/** A link to a robot. Shows its ID until the name is loaded. */
export function RobotLink({ id, name }: { id: string; name?: string | undefined }) {
  const robot = useQuery({ ...query("getRobot", { params: { id } }), enabled: name === undefined });
  return <NameLink to="/robots/$id" params={{ id }} name={name ?? robot.data?.data.name ?? id} />;
}

/** The name of the user or token that created something. */
export const ActorName = ({ actor }: { actor: Deployment["created_by"] }) => (
  <TextLine>{actor.name ?? actor.type.replaceAll("_", " ")}</TextLine>
);

const EVENTS_MAX = 500;
type ListName = "listDeploymentEvents" | "listConfigDeploymentEvents";

/** The events of the deployment itself, newest first. */
export function EventLog({ name, id }: { name: ListName; id: string }) {
  const events = useQuery(query(name, { params: { id }, query: { limit: EVENTS_MAX } }));
  return (
    <Section title="Events">
      <QueryState query={events} rows={3}>
        {({ items }) => <Events events={items} />}
      </QueryState>
    </Section>
  );
}

function Events({ events }: { events: readonly DeploymentEvent[] }) {
  if (events.length === 0) return <p className="text-muted">No events yet</p>;
  return (
    <ol
      className="max-h-96 divide-y divide-line overflow-y-auto rounded-lg border border-line bg-raised"
      tabIndex={0}
      aria-label="Events, newest first"
    >
      {events.toReversed().map((event) => (
        <li key={event.id} className="px-4 py-2">
          <span className="mb-0.5 flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-muted">
            <Time at={event.at} exact />
            <StatusBadge status={event.target_status ?? event.status} />
            {event.actor.type !== "system" && event.actor.type !== "robot" && <Text>{event.actor.name ?? event.actor.type}</Text>}
          </span>
          <Text>{withLocalTimes(event.message)}</Text>
          <Said event={event} />
        </li>
      ))}
    </ol>
  );
}

/** The message that the robot sent with an event. */
function Said({ event: { data, message } }: { event: DeploymentEvent }) {
  const said = [data.robot_says, data.detail].find((one) => typeof one === "string" && !message.includes(one));
  return typeof said === "string" ? (
    <p className="mt-0.5 font-mono text-xs text-muted">
      <Text>{said}</Text>
    </p>
  ) : null;
}

/** All events of one robot of a deployment. */
export function RobotEvents({
  name,
  id,
  robot_id,
  robot_name,
  onClose,
}: {
  name: ListName;
  id: string;
  robot_id: string;
  robot_name: string;
  onClose: () => void;
}) {
  const events = useQuery(query(name, { params: { id }, query: { robot_id, limit: EVENTS_MAX } }));
  return (
    <Dialog open onClose={onClose} title="Events on this robot" wide>
      <p className="mb-3 flex items-baseline gap-2">
        <RobotLink id={robot_id} name={robot_name} />
      </p>
      {name === "listDeploymentEvents" && (
        <Section title="Why?">
          <WhyNot robot_id={robot_id} deployment_id={id} />
        </Section>
      )}
      <QueryState query={events} rows={3}>
        {({ items }) => <Events events={items} />}
      </QueryState>
    </Dialog>
  );
}
