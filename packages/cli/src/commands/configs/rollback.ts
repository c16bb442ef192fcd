import { addExamples, type Define, wholeNumber } from "../../command.ts";
import { findEntryId, type ScopeOptions, scopeOptions, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

interface Options extends ScopeOptions {
  to: number;
}

export const define: Define = (command, act) => {
  command
    .description("Set the value of an earlier version again, as the next version. Robots get it by the next config deployment.")
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command)
    .requiredOption("--to <version>", "Version whose value is set again, as rf configs history shows it", wholeNumber(1))
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
    out.line(line`No robot has it yet: rf configs deploy --namespace ${namespace} --fleet <id>`);
  });
}
