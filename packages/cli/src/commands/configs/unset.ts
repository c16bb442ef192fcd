import { addExamples, type Define } from "../../command.ts";
import { findEntry, type ScopeOptions, scopeOptions, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Remove the value set at one scope, so that a wider scope applies. Robots keep their values until the next config deployment. " +
        "The history is kept: rf configs rollback restores the value.",
    )
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command).action(act<[string, ScopeOptions]>(run));
  addExamples(command, ["rf configs unset speed_limit --robot rob_…"]);
};

async function run(context: Context, key: string, options: ScopeOptions): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const { id } = await findEntry(client, key, options);
  const answer = await client.deleteConfig({ params: { id } });
  const { namespace, key: name } = answer.data;
  await out.result(answer, () => {
    out.line(line`Removed ${namespace}/${name} of ${whereOf(answer.data)} (${id})`);
    out.line(line`Robots keep their values until the next config deployment: rf configs deploy --namespace ${namespace} --fleet <id>`);
  });
}
