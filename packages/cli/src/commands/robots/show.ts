import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { labelsText } from "../../labels.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the robot").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).getRobot({ params: { id } });
  const robot = answer.data;
  await out.result(answer, async () => {
    out.details([
      ["Id", robot.id],
      ["Name", robot.name],
      ["Status", out.status(robot.status)],
      ["Last seen", relative(robot.last_seen_at, context.now())],
      ...(robot.held_at === null
        ? []
        : [["Held", `${relative(robot.held_at, context.now())}: several machines have its identity`] as const]),
      ["Site", robot.site_id],
      ["Fleet", robot.fleet_id],
      ["Labels", labelsText(robot.labels)],
      ["Agent", robot.agent_version ?? "unknown"],
      ["Platform", robot.platform === null ? "unknown" : `${robot.platform.os} ${robot.platform.arch}, ${robot.platform.hostname}`],
      ["Config", out.status(robot.config_state)],
      ["Key", robot.public_key_fingerprint],
      ["Enrolled", relative(robot.created_at, context.now())],
    ]);
    if (robot.apps.length === 0) return out.line("\nNo release was deployed to it yet: rf deploy <release> --robot <id>");
    out.line();
    await out.table(robot.apps, [
      { title: "APP", value: ({ app }) => app },
      { title: "RUNS", value: ({ current }) => current?.tag ?? "–" },
      { title: "DESIRED", value: ({ desired }) => desired?.tag ?? "–" },
      { title: "STATUS", value: ({ status }) => out.status(status) },
    ]);
  });
}
