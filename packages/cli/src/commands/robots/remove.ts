import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Decommission a robot, for good: what is under way for it ends, its link is closed, and its key opens nothing any more. Its history stays, and the machine goes on with what it runs.",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
  addExamples(command, ["rf robots remove rob_…"]);
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteRobot({ params: { id } });
  await context.out.result(answer, () => {
    context.out.line(line`Robot ${answer.data.name} is decommissioned: ${id}`);
    context.out.line("To use the machine again, empty the state directory of its agent and let it enrol anew.");
  });
}
