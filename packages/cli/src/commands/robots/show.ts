import type { Body, Client } from "@roamfleet/sdk";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { labelsText } from "../../labels.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the robot").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const answer = await client.getRobot({ params: { id } });
  const robot = answer.data;
  await out.result(answer, async () => {
    out.details([
      ["Id", robot.id],
      ["Name", robot.name],
      ["Status", out.status(robot.status)],
      ["Last seen", relative(robot.last_seen_at, context.now())],
      ["Health", robot.failing.length === 0 ? out.status(robot.health) : line`${out.status(robot.health)}: ${robot.failing.join(", ")}`],
      ...(robot.held_at === null
        ? []
        : [["Quarantined", `${relative(robot.held_at, context.now())}: several machines use its identity`] as const]),
      ...(robot.approval === "approved" ? [] : [["Approval", "pending: secrets are withheld until an admin approves it"] as const]),
      ["Site", robot.site_id],
      ["Fleet", robot.fleet_id],
      ["Labels", labelsText(robot.labels)],
      ["Agent", robot.agent_version ?? "unknown"],
      ["Platform", robot.platform === null ? "unknown" : `${robot.platform.os} ${robot.platform.arch}, ${robot.platform.hostname}`],
      ["Config", out.status(robot.config_state)],
      ["Key", robot.public_key_fingerprint],
      ["Enrolled", relative(robot.created_at, context.now())],
    ]);
    if (robot.apps.length === 0) return out.line("\nNo releases deployed yet. Deploy one: rf deploy <release> --robot <id>");
    out.line();
    await out.table(robot.apps, [
      { title: "APP", value: ({ app }) => app },
      { title: "RUNS", value: ({ current }) => current?.tag ?? "–" },
      { title: "DESIRED", value: ({ desired }) => desired?.tag ?? "–" },
      { title: "STATUS", value: ({ status }) => out.status(status) },
    ]);
    for (const note of await broughtBySystem(client, robot)) out.line(note);
  });
}

const BECAUSE: Record<string, string> = {
  joined: "because the robot joined a fleet with it",
  returned: "because the robot was offline when the fleet's deployment expired",
};
const DEPLOYMENTS_LOOKED_AT = 20;

/** Explains releases that the system deployed because the robot's fleet has them, one line per app. */
async function broughtBySystem(client: Client, robot: Body<"getRobot">["data"]): Promise<string[]> {
  const { items } = await client.listDeployments({ query: { robot_id: robot.id, limit: DEPLOYMENTS_LOOKED_AT } });
  const lines = robot.apps.map(async ({ app, current, desired }) => {
    const latest = items.find(({ release }) => release.app === app);
    if (latest === undefined || latest.created_by.type !== "system" || latest.release.id !== (desired ?? current)?.id) return [];
    const { items: events } = await client.listDeploymentEvents({ params: { id: latest.id }, query: { limit: 1 } });
    const because = BECAUSE[String(events[0]?.data["cause"])];
    return because === undefined ? [] : [line`${app} ${latest.release.tag} was deployed automatically, ${because}: ${latest.id}`];
  });
  return (await Promise.all(lines)).flat();
}
