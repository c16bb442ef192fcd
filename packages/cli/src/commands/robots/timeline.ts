import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";

export const define: Define = (command, act) => {
  command
    .description("Show what happened to a robot: connects, deployments, configs; the newest first.")
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const { out } = context;
  const answer = await (await context.client()).listRobotTimeline({ params: { id } });
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("Nothing happened to this robot yet.");
    return out.table(answer.items, [
      { title: "TIME", value: ({ at }) => at },
      { title: "AGO", value: ({ at }) => out.paint("quiet", relative(at, context.now())) },
      { title: "KIND", value: ({ kind }) => kind },
      { title: "BY", value: ({ actor }) => actor.name ?? actor.type },
      { title: "WHAT", value: ({ summary }) => summary },
    ]);
  });
}
