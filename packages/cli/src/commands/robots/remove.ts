import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Decommission a robot permanently: its deployments are cancelled, its connection is closed, and its key is revoked. Its history is kept, and the machine keeps running its apps.",
    )
    .argument("<id>", "Id of the robot")
    .action(act<[string]>(run));
  addExamples(command, ["rf robots remove rob_…"]);
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteRobot({ params: { id } });
  await context.out.result(answer, () => {
    context.out.line(line`Robot ${answer.data.name} is decommissioned: ${id}`);
    context.out.line("To use the machine again, empty the state directory of its agent and enroll it again.");
  });
}
