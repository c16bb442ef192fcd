import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command.description("Remove a site that has no fleets.").argument("<id>", "Id of the site").action(act<[string]>(run));
};

async function run(context: Context, id: string): Promise<void> {
  const answer = await (await context.client()).deleteSite({ params: { id } });
  await context.out.result(answer, () => context.out.line(line`Removed site ${answer.data.name}: ${id}`));
}
