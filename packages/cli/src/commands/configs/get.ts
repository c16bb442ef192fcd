import { addExamples, type Define } from "../../command.ts";
import { findEntry, type ScopeOptions, scopeOptions, valueText, whereOf } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description(
      "Show the value set at one scope: the org, a site, a fleet or a robot. To see a robot's effective values: rf configs effective.",
    )
    .argument("<key>", "Key, or id of the entry");
  scopeOptions(command).action(act<[string, ScopeOptions]>(run));
  addExamples(command, ["rf configs get speed_limit", "rf configs get speed_limit --fleet fleet_…"]);
};

async function run(context: Context, key: string, options: ScopeOptions): Promise<void> {
  const { out } = context;
  const data = await findEntry(await context.client(), key, options);
  await out.result({ data }, () => {
    out.line(line`${data.namespace}/${data.key} = ${valueText(data)}`);
    out.line(line`Version ${data.version}, set for ${whereOf(data)} at ${data.updated_at} by ${data.updated_by ?? "–"} (${data.id})`);
  });
}
