import type { Body } from "@roamfleet/sdk";
import { requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { line } from "../text.ts";

type Explanation = Body<"explainRobot">["data"];

export const explain = requestCommand(
  "Explain why a robot has not installed a release: every condition that must hold, the unmet ones first, and the smallest change for each.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .option("--deployment <id>", "Explain this deployment; default: the newest one that concerns the robot")
      .option("--all", "Also list the conditions that are met"),
  (client, _, id: string, options: { deployment?: string; all?: true }) =>
    client.explainRobot({ params: { id }, query: { deployment_id: options.deployment } }),
  ({ data }, context, _, options) => show(context, data, options.all === true),
  ["rf explain rob_…", "rf explain rob_… --deployment dep_… --all"],
);

function show({ out, now }: Context, { robot_name, deployment_id, release, state, summary, conditions }: Explanation, all: boolean): void {
  out.details([
    ["Robot", robot_name],
    ["Deployment", deployment_id ?? undefined],
    ["Release", release?.tag],
    ["State", out.status(state)],
    ["Why", summary],
  ]);
  const order = [false, null, true] as const;
  const shown = order.flatMap((met) => conditions.filter((condition) => condition.met === met && (all || met === false)));
  if (shown.length === 0) return;
  out.line();
  for (const { met, message, until, change } of shown) {
    const mark = met === null ? out.paint("quiet", "?") : met ? out.paint("good", "✓") : out.paint("bad", "✗");
    out.line(line`${mark} ${message}${until === null ? "" : ` (${relative(until, now())})`}`);
    if (change === null) continue;
    out.line(line`  → ${change.message}`);
    if (change.command !== null) out.line(line`    ${change.command}`);
  }
}
