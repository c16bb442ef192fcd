import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command.argument("<id>", "Id of the site").argument("<name>", "New name").action(act<[string, string]>(run));
  addExamples(command, ["rf sites rename site_… 'Berlin north'"]);
};

async function run(context: Context, id: string, name: string): Promise<void> {
  const answer = await (await context.client()).updateSite({ params: { id }, body: { name } });
  await context.out.result(answer, () => context.out.line(line`Renamed site ${id} to ${answer.data.name}.`));
}
