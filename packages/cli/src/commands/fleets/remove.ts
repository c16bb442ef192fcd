import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Remove a fleet that has no robots, with its enrollment keys.")
    .argument("<id>", "Id of the fleet")
    .action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteFleet({ params: { id } });
  await context.out.result(answer, () => context.out.line(line`Removed fleet ${answer.data.name}: ${id}`));
}
