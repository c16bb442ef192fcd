import type { Body } from "@robofleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { bytes, duration, relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the robot").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).getRobotHealth({ params: { id } });
  await context.out.result(answer, () => show(context, answer.data));
}

async function show(context: Context, health: Body<"getRobotHealth">["data"]): Promise<void> {
  const { out } = context;
  const { cpu, memory, battery, ros } = health;
  out.details([
    ["Robot", health.robot_id],
    ["Status", out.status(health.status)],
    ["Reported", relative(health.at, context.now())],
    ["Up for", duration(health.uptime_seconds)],
    [
      "CPU",
      `${cpu.percent.toFixed(0)} % of ${cpu.cores} cores, load ${cpu.load_1m}${cpu.temperature_celsius == null ? "" : `, ${cpu.temperature_celsius.toFixed(0)} °C`}`,
    ],
    ["Memory", share(memory)],
    ...health.disks.map((disk) => [`Disk ${disk.mount}`, share(disk)] as const),
    ...health.network.map((network) => [`Net ${network.name}`, network.addresses.join(", ") || "–"] as const),
    ["Battery", battery === null ? undefined : `${battery.percent} %${battery.charging ? ", charging" : ""}`],
    ["ROS", ros === null ? undefined : rosText(ros)],
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

/** `jazzy by dds: 3 nodes, 12 topics` */
function rosText({ distro, adapter, nodes, topics }: NonNullable<Body<"getRobotHealth">["data"]["ros"]>): string {
  const what = [distro, adapter == null ? undefined : `by ${adapter}`].filter((word) => word != null).join(" ");
  const count = `${nodes.length} ${nodes.length === 1 ? "node" : "nodes"}, ${topics.length} ${topics.length === 1 ? "topic" : "topics"}`;
  return what === "" ? count : `${what}: ${count}`;
}

const share = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): string =>
  `${bytes(used_bytes)} of ${bytes(total_bytes)} (${total_bytes === 0 ? 0 : Math.round((100 * used_bytes) / total_bytes)} %)`;
