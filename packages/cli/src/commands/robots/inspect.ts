import type { Body } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { bytes, duration, relative } from "../../duration.ts";

type RosAdapter = NonNullable<Body<"getRobotHealth">["data"]["ros_adapters"]>[number];

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the robot").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).getRobotHealth({ params: { id } });
  await context.out.result(answer, () => show(context, answer.data));
}

async function show(context: Context, health: Body<"getRobotHealth">["data"]): Promise<void> {
  const { out } = context;
  const { cpu, memory, battery, ros, ros_adapters = [] } = health;
  out.details([
    ["Robot", health.robot_id],
    ["Status", out.status(health.status)],
    ["Reported", relative(health.at, context.now())],
    ["Uptime", duration(health.uptime_seconds)],
    [
      "CPU",
      `${cpu.percent.toFixed(0)} % of ${cpu.cores} cores, load ${cpu.load_1m}${cpu.temperature_celsius == null ? "" : `, ${cpu.temperature_celsius.toFixed(0)} °C`}`,
    ],
    ["Memory", share(memory)],
    ...health.disks.map((disk) => [`Disk ${disk.mount}`, share(disk)] as const),
    ...health.network.map((network) => [`Net ${network.name}`, network.addresses.join(", ") || "–"] as const),
    ["Battery", battery === null ? undefined : `${battery.percent} %${battery.charging ? ", charging" : ""}`],
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
      { title: "WHAT", value: ({ message }) => message },
    ]);
  }
}

/** Formats `jazzy by dds: 3 nodes, 12 topics`. */
function rosText({ distro, adapter, nodes, topics }: NonNullable<Body<"getRobotHealth">["data"]["ros"]>): string {
  const what = [distro, adapter == null ? undefined : `by ${adapter}`].filter((word) => word != null).join(" ");
  const count = `${counted(nodes.length, "node")}, ${counted(topics.length, "topic")}`;
  return what === "" ? count : `${what}: ${count}`;
}

/** `connected, jazzy: 3 nodes, 12 topics`, `lost: connection lost` */
function adapterText({ state, distro, nodes = 0, topics = 0, reason }: RosAdapter): string {
  if (state !== "connected") return reason === undefined ? state : `${state}: ${reason}`;
  return `connected${distro == null ? "" : `, ${distro}`}: ${counted(nodes, "node")}, ${counted(topics, "topic")}`;
}

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

const share = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): string =>
  `${bytes(used_bytes)} of ${bytes(total_bytes)} (${total_bytes === 0 ? 0 : Math.round((100 * used_bytes) / total_bytes)} %)`;
