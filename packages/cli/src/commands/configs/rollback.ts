import { addExamples, type Define, wholeNumber } from "../../command.ts";
import { findEntryId, type ScopeOptions, scopeOptions, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options extends ScopeOptions {
  to: number;
}

export const define: Define = (command, act) => {
  command
    .description("Restore the value of an earlier version as a new version. Robots get it with the next config deployment.")
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command)
    .requiredOption("--to <version>", "Version to restore, as listed by rf configs history", wholeNumber(1))
    .action(act<[string, Options]>(run));
  addExamples(command, ["rf configs rollback speed_limit --to 3 --fleet fleet_…"]);
};

async function run(context: Context, key: string, options: Options): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const id = await findEntryId(client, key, options);
  const body = { version: options.to };
  const answer = await client.rollBackConfig({ params: { id }, body, idempotency_key: context.idempotencyKey() });
  const { namespace, key: name, version } = answer.data;
  await out.result(answer, () => {
    out.line(
      line`Set for ${whereOf(answer.data)}: ${namespace}/${name} = ${valueText(answer.data)} (version ${version}, as in version ${options.to})`,
    );
    out.line(line`Not deployed yet: rf configs deploy --namespace ${namespace} --fleet <id>`);
  });
}
