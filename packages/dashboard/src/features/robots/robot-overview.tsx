import { isOutdatedAgent } from "@roamfleet/protocol/agent-version";
import type { Deployment, HealthSnapshot, Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight } from "lucide-react";
import { query, useHostedVersion } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import {
  Badge,
  Bytes,
  Card,
  CardList,
  combineLoaded,
  Command,
  CopyText,
  counted,
  cx,
  DeploymentStatusBadge,
  FailedSection,
  hasFailed,
  KeyValue,
  NameLink,
  Progress,
  QueryState,
  Section,
  shellLine,
  StatusBadge,
  Text,
  TextLine,
  Time,
  type Tone,
} from "../../ui/index.ts";
import { reasonText, waitingText } from "../deployments/deployment-text.ts";
import { Conditions, explanationQuery } from "../deployments/explanation.tsx";
import { SmallMap } from "../map/small-map.tsx";
import { AgentVersion } from "./agent-version.tsx";
import { HealthStrip } from "./health-strip.tsx";
import { joinWorkloads, releaseName, robotLines, saysApp, type Workload } from "./robot-text.ts";
import { TimelineList } from "./robot-timeline.tsx";
import { healthQuery, useRobot } from "./use-robot.ts";

const RECENT = 8;

/** The overview of a robot: apps, deployments, failing checks, details, position, labels and recent activity. */
export function RobotOverview() {
  const robot = useRobot();
  if (robot === undefined) return null;
  return (
    <>
      {robot.status !== "decommissioned" && <HealthStrip robot={robot} />}
      <div className="grid gap-x-6 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="min-w-0">
          <Failing robot={robot} />
          <Why robot={robot} />
          <RobotWorkloads robot={robot} />
          <RobotDeployments robot={robot} />
          <LatestEntries robot_id={robot.id} />
        </div>
        <div className="min-w-0">
          <Facts robot={robot} />
          {robot.status !== "decommissioned" && <SmallMap title="Position" scope={{ robot_id: robot.id }} />}
          <Labels robot={robot} />
          <Section title="Command line">
            <Command>{robotLines.show(robot.id)}</Command>
          </Section>
        </div>
      </div>
    </>
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

/** Why the robot has not installed the release of its newest deployment; nothing if it has, or if nothing keeps it from doing so. */
function Why({ robot: { id, status } }: { robot: Robot }) {
  const read = useQuery({ ...explanationQuery(id), enabled: status !== "decommissioned" });
  const explanation = read.data?.data;
  if (hasFailed(read)) return <FailedSection title="Update" query={read} />;
  if (explanation === undefined || (explanation.state !== "blocked" && explanation.state !== "waiting")) return null;
  return (
    <Section title={`Why not ${explanation.release?.tag ?? "the release"} yet?`}>
      <Card>
        <Conditions explanation={explanation} />
      </Card>
    </Section>
  );
}

function Facts({ robot }: { robot: Robot }) {
  const read = useQuery({ ...healthQuery(robot.id), enabled: robot.health !== "unknown" });
  const health = read.data?.data;
  const none = <span className="text-muted">{hasFailed(read) ? "not loaded" : "—"}</span>;
  const hosted = useHostedVersion();
  const { platform, agent_version, public_key_fingerprint, public_key_type, created_at, last_seen_at } = robot;
  const addresses = (health?.network ?? [])
    .filter(({ name }) => name !== "lo")
    .flatMap(({ name, addresses: of }) => of.map((address) => `${address} (${name})`));
  return (
    <Section title="Details">
      <Card>
        <KeyValue
          items={{
            Host: <Text>{platform?.hostname}</Text>,
            System: <Text>{[platform?.os, platform?.arch].filter(Boolean).join(" · ")}</Text>,
            Kernel: <Text>{platform?.kernel}</Text>,
            Agent: <AgentVersion version={agent_version} hosted={hosted} />,
            ...(isOutdatedAgent(agent_version, hosted)
              ? { Upgrade: <CopyText label="command" text={shellLine("rf", "agents", "upgrade", "--robot", robot.id)} /> }
              : {}),
            Addresses: addresses.length === 0 ? none : <AddressList addresses={addresses} />,
            ROS: health === undefined ? none : <RosFacts health={health} />,
            Battery: health === undefined ? none : batteryText(health),
            "Last seen": <Time at={last_seen_at} exact />,
            Enrolled: <Time at={created_at} exact />,
            "Private key": public_key_type === "ecdsa_p256" ? "in the TPM" : "in a file on the robot",
            "Key fingerprint": <CopyText label="fingerprint" text={public_key_fingerprint} />,
          }}
        />
      </Card>
    </Section>
  );
}

const batteryText = ({ battery }: HealthSnapshot): string =>
  battery === null ? "none" : `${Math.round(battery.percent)}%${battery.charging ? ", charging" : ""}`;

/** The total of all ROS adapters, then each adapter if several are connected or one failed. */
function RosFacts({ health: { ros, ros_adapters = [] } }: { health: HealthSnapshot }) {
  const shown = ros_adapters.filter(({ state }) => state === "connected" || state === "failed" || state === "lost");
  return (
    <ul>
      <li>
        {ros === null ? (
          "not found"
        ) : (
          <Text>{`${ros.distro ?? "ROS"}, found by ${ros.adapter}: ${counted(ros.nodes.length, "node")}, ${counted(ros.topics.length, "topic")}`}</Text>
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
    : `${name} ${state === "lost" ? "connection lost" : state}: ${reason ?? "unknown reason"}`;

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

function Labels({ robot: { labels, status } }: { robot: Robot }) {
  const may_change = useMay("operator") && status !== "decommissioned";
  const all = Object.entries(labels);
  return (
    <Section title="Labels">
      {all.length === 0 ? (
        <p className="text-muted">
          No labels. Labels group robots across fleets.
          {may_change && " To set them, choose “Change labels…” in the menu next to “Deploy”."}
        </p>
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
                  <TextLine>{`${key}: ${value}`}</TextLine>
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
    <Section title="Recent activity" all={{ to: "/robots/$id/timeline", params: { id: robot_id } }}>
      <QueryState query={timeline} rows={4}>
        {({ items }) => (items.length === 0 ? <p className="text-muted">No activity yet</p> : <TimelineList entries={items} />)}
      </QueryState>
    </Section>
  );
}

const TONES: Record<string, Tone> = { running: "ok", stopped: "idle", starting: "info", failed: "bad" };

/** The apps of a robot: current and desired release, and status. */
function RobotWorkloads({ robot }: { robot: Robot }) {
  // Request no health snapshot of a robot that has not reported its health, because there is none.
  const health = useQuery({ ...healthQuery(robot.id), enabled: robot.health !== "unknown" }).data?.data;
  const workloads = joinWorkloads(robot.apps, health?.workloads ?? []);
  return (
    <Section title="Apps">
      <CardList items={workloads} empty="No apps deployed yet">
        {(workload) => <WorkloadItem key={workload.app} workload={workload} />}
      </CardList>
    </Section>
  );
}

function WorkloadItem({ workload: { app, current, desired, status, kind, restarts, release_state } }: { workload: Workload }) {
  const releases = [current, desired].filter((release) => release !== null);
  const is_said = releases.length > 0 && releases.every(({ tag }) => saysApp({ app, tag }));
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      {!is_said && (
        <span className="min-w-0 font-medium">
          <Text>{app}</Text>
        </span>
      )}
      <span className="flex min-w-0 flex-1 items-center gap-1.5">
        <Release release={current} />
        {desired !== null && desired.id !== current?.id && (
          <>
            <ArrowRight size={12} aria-label="changing to" className="shrink-0 text-muted" />
            <Release release={desired} />
          </>
        )}
      </span>
      {kind !== undefined && <span className="text-xs text-muted">{kind.replaceAll("_", " ")}</span>}
      {restarts !== undefined && restarts > 0 && <span className="text-xs text-muted tabular-nums">{counted(restarts, "restart")}</span>}
      {status !== "" && <Badge tone={TONES[status] ?? "idle"}>{status}</Badge>}
      <StatusBadge status={release_state} />
    </li>
  );
}

function Release({ release }: { release: { id: string; tag: string } | null }) {
  if (release === null) return <span className="text-muted">none</span>;
  return (
    <Link to="/releases/$id" params={{ id: release.id }} className="min-w-0 font-medium text-accent hover:underline">
      <Text>{release.tag}</Text>
    </Link>
  );
}

const SHOWN = 5;

/** The latest deployments that include this robot, with the progress of running ones. */
function RobotDeployments({ robot: { id: robot_id, fleet_id } }: { robot: Robot }) {
  const own = useQuery(query("listDeployments", { query: { robot_id, limit: SHOWN } }));
  const of_fleet = useQuery(query("listDeployments", { query: { fleet_id, limit: SHOWN } }));
  const items = own.data && of_fleet.data && latest([...own.data.items, ...of_fleet.data.items]);
  return (
    <Section title="Deployments" all={items !== undefined && items.length > 0 && { to: "/deployments", search: { robot_id } }}>
      <QueryState query={combineLoaded([own, of_fleet], items)} rows={3}>
        {(shown) => (
          <CardList items={shown} empty="No deployments yet">
            {(deployment) => <DeploymentItem key={deployment.id} deployment={deployment} robot_id={robot_id} />}
          </CardList>
        )}
      </QueryState>
    </Section>
  );
}

const latest = (deployments: readonly Deployment[]): Deployment[] =>
  deployments.toSorted((a, b) => Date.parse(b.created_at) - Date.parse(a.created_at)).slice(0, SHOWN);

function DeploymentItem({ deployment, robot_id }: { deployment: Deployment; robot_id: string }) {
  const { id, release, created_at, finished_at, target_kind } = deployment;
  const targets = useQuery(query("listDeploymentTargets", { params: { id }, query: { robot_id, limit: 1 } }));
  const target = targets.data?.items[0];
  // Leave out a deployment that ended before the robot joined the fleet.
  if (targets.data !== undefined && target === undefined && finished_at !== null) return null;
  return (
    <li className="px-4 py-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <NameLink to="/deployments/$id" params={{ id }} name={releaseName(release)} className="flex-1 font-medium" />
        <span className="text-xs text-muted">
          {target_kind === "robot" ? "to this robot, " : target_kind === "fleet" ? "to the fleet, " : "to a selection, "}
          <Time at={finished_at ?? created_at} />
        </span>
        {target === undefined ? <DeploymentStatusBadge deployment={deployment} /> : <StatusBadge status={target.status} />}
      </div>
      {target?.reason != null && <p className="text-xs text-muted">{reasonText(target.reason)}</p>}
      {target?.waiting_for != null && <p className="text-xs text-muted">{waitingText(target.waiting_for)}</p>}
      {target?.progress != null && target.status === "downloading" && (
        <div className="mt-1.5 flex items-center gap-3 text-xs text-muted">
          <Progress
            label="Download"
            total={target.progress.bytes_total}
            parts={[{ value: target.progress.bytes_done, tone: "info", label: "bytes" }]}
          />
          <Bytes count={target.progress.bytes_done} />
        </div>
      )}
    </li>
  );
}
