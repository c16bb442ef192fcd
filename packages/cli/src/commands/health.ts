import type { Body } from "@roamfleet/sdk";
import { defineCommand, requestCommand, wholeNumber } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes, duration, readTime, relative, type TimeOption } from "../duration.ts";

type RosAdapter = NonNullable<Body<"getRobotHealth">["data"]["ros_adapters"]>[number];

export const inspect = requestCommand(
  undefined,
  (command) => command.argument("<id>", "ID of the robot"),
  (client, _, id: string) => client.getRobotHealth({ params: { id } }),
  ({ data }, context) => show(context, data),
);

async function show({ out, now }: Context, health: Body<"getRobotHealth">["data"]): Promise<void> {
  const { cpu, memory, battery, ros, ros_adapters = [] } = health;
  out.details([
    ["Robot", health.robot_id],
    ["Status", out.status(health.status)],
    ["Reported", relative(health.at, now())],
    ["Uptime", duration(health.uptime_seconds)],
    [
      "CPU",
      `${cpu.percent.toFixed(0)}% of ${cpu.cores} cores, load ${cpu.load_1m}${cpu.temperature_celsius == null ? "" : `, ${cpu.temperature_celsius.toFixed(0)} °C`}`,
    ],
    ["Memory", share(memory)],
    ...health.disks.map((disk) => [`Disk ${disk.mount}`, share(disk)] as const),
    ...health.network.map((network) => [`Net ${network.name}`, network.addresses.join(", ") || "–"] as const),
    ["Battery", battery === null ? undefined : `${battery.percent}%${battery.charging ? ", charging" : ""}`],
    ["ROS", ros === null ? undefined : rosText(ros)],
    ...ros_adapters
      .filter(({ state }) => state !== "not_found")
      .map((adapter, _, { length }) => [`ROS ${adapter.name}`, length === 1 && ros !== null ? undefined : adapterText(adapter)] as const),
  ]);
  if (health.workloads.length > 0) {
    out.line();
    await out.table(health.workloads, [
      { title: "APP", value: ({ app }) => app },
      { title: "RELEASE", value: ({ release_tag }) => release_tag ?? "–" },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "RESTARTS", value: ({ restarts }) => restarts },
    ]);
  }
  if (health.checks.length > 0) {
    out.line();
    await out.table(health.checks, [
      { title: "CHECK", value: ({ name }) => name },
      { title: "STATUS", value: ({ status }) => out.status(status) },
      { title: "MESSAGE", value: ({ message }) => message },
    ]);
  }
}

/** Formats `jazzy via dds: 3 nodes, 12 topics`. */
function rosText({ distro, adapter, nodes, topics }: NonNullable<Body<"getRobotHealth">["data"]["ros"]>): string {
  const what = [distro, adapter == null ? undefined : `via ${adapter}`].filter((word) => word != null).join(" ");
  const count = `${counted(nodes.length, "node")}, ${counted(topics.length, "topic")}`;
  return what === "" ? count : `${what}: ${count}`;
}

/** Formats an adapter's state: `connected, jazzy: 3 nodes, 12 topics` or `lost: connection lost`. */
function adapterText({ state, distro, nodes = 0, topics = 0, reason }: RosAdapter): string {
  if (state !== "connected") return reason === undefined ? state : `${state}: ${reason}`;
  return `connected${distro == null ? "" : `, ${distro}`}: ${counted(nodes, "node")}, ${counted(topics, "topic")}`;
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

const share = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): string =>
  `${bytes(used_bytes)} of ${bytes(total_bytes)} (${total_bytes === 0 ? 0 : Math.round((100 * used_bytes) / total_bytes)}%)`;

/** Default number of points, which fits on one screen. */
const POINTS_SHOWN = 60;

interface Options {
  since?: TimeOption;
  until?: TimeOption;
  points?: number;
}

export const health = defineCommand<[string, Options]>(
  "Show a robot's health over time: one line per minute, or averages over longer intervals. `rf robots inspect` shows the current state.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .option("--since <time>", "Start of the period: an age such as 10m, 2h or 3d, or an RFC 3339 time (default: an hour ago)", readTime)
      .option("--until <time>", "End of the period, in the same form (default: now)", readTime)
      .option("--points <n>", `At most this many lines (default: ${POINTS_SHOWN})`, wholeNumber(2)),
  async (context, id, { since, until, points }) => {
    const { out } = context;
    const query = { since: since?.(context.now()), until: until?.(context.now()), points: points ?? POINTS_SHOWN };
    const answer = await (await context.client()).getRobotHealthHistory({ params: { id }, query });
    await out.result(answer, () => {
      if (answer.items.length === 0) return out.note("No health data in this period.");
      const shown = (value: number | null, unit: string): string => (value === null ? "–" : `${value.toFixed(0)}${unit}`);
      return out.table(answer.items, [
        { title: "TIME", value: ({ at }) => at },
        { title: "CPU", value: ({ cpu_percent }) => shown(cpu_percent, "%") },
        { title: "LOAD", value: ({ load_1m }) => load_1m.toFixed(2) },
        { title: "MEMORY", value: ({ memory_percent }) => shown(memory_percent, "%") },
        { title: "TEMPERATURE", value: ({ temperature_celsius }) => shown(temperature_celsius, " °C") },
        { title: "BATTERY", value: ({ battery_percent }) => shown(battery_percent, "%") },
        { title: "DISKS", value: ({ disks }) => disks.map(({ mount, percent }) => `${mount} ${percent.toFixed(0)}%`).join(", ") || "–" },
      ]);
    });
  },
  ["rf robots health rob_… --since 1d", "rf robots health rob_… --since 7d --points 2000 --json"],
);
