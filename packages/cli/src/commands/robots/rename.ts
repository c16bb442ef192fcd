import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the robot").argument("<name>", "New name").action(act<[string, string]>(run));
  addExamples(command, ["rf robots rename rob_… cart-7"]);
};

async function run(context: Context, id: string, name: string): Promise<void> {
  const answer = await (await context.client()).updateRobot({ params: { id }, body: { name } });
  await context.out.result(answer, () => context.out.line(line`Renamed robot ${id} to ${answer.data.name}.`));
}
