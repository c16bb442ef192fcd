import type { HealthSnapshot, Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { query } from "../../api/queries.ts";
import { healthQuery } from "./health-query.ts";
import { Badge, Card, Command, CopyText, cx, EmptyState, KeyValue, LinkButton, Section, Text, Time } from "../../ui/index.ts";
import { RobotDeployments } from "./robot-deployments.tsx";
import { robotLines } from "./robot-lines.ts";
import { RobotWorkloads } from "./robot-workloads.tsx";
import { TimelineList } from "./timeline-list.tsx";
import { useRobot } from "./use-robot.ts";

const RECENT = 8;

/** The overview of a robot: apps, deployments, failing checks, details, labels and recent activity. */
export function RobotOverview() {
  const robot = useRobot();
  if (robot === undefined) return null;
  return (
    <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <div className="min-w-0">
        <Failing robot={robot} />
        <RobotWorkloads robot={robot} />
        <RobotDeployments robot={robot} />
        <LatestEntries robot_id={robot.id} />
      </div>
      <div className="min-w-0">
        <Facts robot={robot} />
        <Labels labels={robot.labels} />
        <Section title="Command line">
          <Command>{robotLines.show(robot.id)}</Command>
        </Section>
      </div>
    </div>
  );
}

function Failing({ robot: { failing, id } }: { robot: Robot }) {
  if (failing.length === 0) return null;
  return (
    <Section title="Failing checks">
      <Card className="!border-bad !bg-bad-soft">
        <ul className="list-disc space-y-1 pl-4">
          {failing.map((text) => (
            <li key={text}>
              <Text>{text}</Text>
            </li>
          ))}
        </ul>
        <Link to="/robots/$id/health" params={{ id }} className="mt-2 inline-block text-accent underline">
          View all checks
        </Link>
      </Card>
    </Section>
  );
}

function Facts({ robot }: { robot: Robot }) {
  const health = useQuery({ ...healthQuery(robot.id), enabled: robot.health !== "unknown" }).data?.data;
  const { platform, agent_version, public_key_fingerprint, created_at, last_seen_at } = robot;
  const addresses = (health?.network ?? [])
    .filter(({ name }) => name !== "lo")
    .flatMap(({ name, addresses: of }) => of.map((address) => `${address} (${name})`));
  return (
    <Section title="Details">
      <Card>
        <KeyValue
          items={[
            ["Host", <Text key="Host">{platform?.hostname}</Text>],
            ["System", <Text key="System">{[platform?.os, platform?.arch].filter(Boolean).join(" · ")}</Text>],
            ["Kernel", <Text key="Kernel">{platform?.kernel}</Text>],
            ["Agent", <Text key="Agent">{agent_version}</Text>],
            ["Addresses", addresses.length === 0 ? "—" : <AddressList addresses={addresses} />],
            ["ROS", <RosFacts key="ROS" health={health} />],
            [
              "Battery",
              health?.battery == null ? "none" : `${Math.round(health.battery.percent)}%${health.battery.charging ? ", charging" : ""}`,
            ],
            ["Last seen", <Time key="seen" at={last_seen_at} exact />],
            ["Enrolled", <Time key="enrolled" at={created_at} exact />],
            [
              "Key",
              <CopyText key="key" label="Fingerprint">
                {public_key_fingerprint}
              </CopyText>,
            ],
          ]}
        />
      </Card>
    </Section>
  );
}

/** The total of all ROS adapters, then each adapter if several are connected or one failed. */
function RosFacts({ health }: { health: HealthSnapshot | undefined }) {
  const { ros, ros_adapters = [] } = health ?? { ros: null };
  const shown = ros_adapters.filter(({ state }) => state === "connected" || state === "failed" || state === "lost");
  return (
    <ul>
      <li>
        {ros === null ? (
          "not found"
        ) : (
          <Text>{`${ros.distro ?? "found"} by ${ros.adapter}: ${counted(ros.nodes.length, "node")}, ${counted(ros.topics.length, "topic")}`}</Text>
        )}
      </li>
      {(shown.length > 1 || shown.some(({ state }) => state !== "connected")) &&
        shown.map((adapter) => (
          <li key={adapter.name} className={cx("text-xs leading-5", adapter.state === "connected" ? "text-muted" : "text-warn")}>
            <Text>{adapterText(adapter)}</Text>
          </li>
        ))}
    </ul>
  );
}

const adapterText = ({ name, state, distro, nodes = 0, topics = 0, reason }: NonNullable<HealthSnapshot["ros_adapters"]>[number]): string =>
  state === "connected"
    ? `${name}${distro == null ? "" : ` (${distro})`}: ${counted(nodes, "node")}, ${counted(topics, "topic")}`
    : `${name} ${state}: ${reason ?? "unknown reason"}`;

const ADDRESSES_MAX = 8;

function AddressList({ addresses }: { addresses: readonly string[] }) {
  return (
    <ul>
      {addresses.slice(0, ADDRESSES_MAX).map((address) => (
        <li key={address} className="font-mono text-xs leading-5">
          <Text>{address}</Text>
        </li>
      ))}
      {addresses.length > ADDRESSES_MAX && <li className="text-muted">{`and ${addresses.length - ADDRESSES_MAX} more`}</li>}
    </ul>
  );
}

function Labels({ labels }: { labels: Robot["labels"] }) {
  const all = Object.entries(labels);
  return (
    <Section title="Labels">
      {all.length === 0 ? (
        <p className="text-muted">No labels. Labels group robots across fleets. Set them in the menu above.</p>
      ) : (
        <ul className="flex flex-wrap gap-1.5">
          {all.map(([key, value]) => (
            <li key={key} className="max-w-full">
              <Link
                to="/robots"
                search={{ label: `${key}:${value}` }}
                title="Robots with this label"
                className="inline-flex min-h-6 max-w-full items-center"
              >
                <Badge>
                  <Text line>{`${key}: ${value}`}</Text>
                </Badge>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

function LatestEntries({ robot_id }: { robot_id: string }) {
  const timeline = useQuery(query("listRobotTimeline", { params: { id: robot_id }, query: { limit: RECENT } }));
  return (
    <Section
      title="Recent activity"
      actions={
        <LinkButton look="quiet" to="/robots/$id/timeline" params={{ id: robot_id }}>
          View all
        </LinkButton>
      }
    >
      {timeline.data === undefined ? null : timeline.data.items.length === 0 ? (
        <EmptyState title="No activity yet" />
      ) : (
        <TimelineList entries={timeline.data.items} />
      )}
    </Section>
  );
}

const counted = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? "" : "s"}`;
