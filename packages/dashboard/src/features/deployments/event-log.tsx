import type { DeploymentEvent } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { query } from "../../api/queries.ts";
import { Dialog, QueryState, Section, StatusBadge, Text, Time } from "../../ui/index.ts";
import { RobotLink } from "./parts.tsx";

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
          <Text>{event.message}</Text>
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
    <Dialog open onClose={onClose} title="On this robot" wide>
      <p className="mb-3 flex items-baseline gap-2">
        <RobotLink id={robot_id} name={robot_name} />
      </p>
      <QueryState query={events} rows={3}>
        {({ items }) => <Events events={items} />}
      </QueryState>
    </Dialog>
  );
}
