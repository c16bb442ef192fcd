import { addExamples, type Define } from "../../command.ts";
import { namespaceOption, readScope, type ScopeOptions, valueText } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { isFiltered, type LimitOption, limitOption, readList } from "../../lists.ts";

type Options = ScopeOptions & LimitOption & { key?: string };

export const define: Define = (command, act) => {
  limitOption(
    namespaceOption(command, "Only entries of this namespace")
      .option("--key <key>", "Only entries with this key")
      .option("--site <id>", "Only entries set for this site")
      .option("--fleet <id>", "Only entries set for this fleet")
      .option("--robot <id>", "Only entries set for this robot"),
  ).action(act<[Options]>(run));
  addExamples(command, ["rf configs list --key speed_limit", "rf configs list --fleet fleet_… --namespace nav"]);
};

async function run(context: Context, options: Options): Promise<void> {
  const { out } = context;
  const { scope, scope_id } = readScope(options);
  // Without a scope option, entries of all scopes are listed.
  const query = { namespace: options.namespace, key: options.key, scope: scope_id === undefined ? undefined : scope, scope_id };
  const answer = await readList(await context.client(), "listConfigs", options.limit, { query });
  await out.result(answer, () => {
    if (answer.items.length === 0)
      return out.note(isFiltered(query) ? "No matching config entries." : "No config entries yet. Set one: rf configs set <key> <value>");
    return out.table(answer.items, [
      { title: "NAMESPACE", value: ({ namespace }) => namespace },
      { title: "KEY", value: ({ key }) => key },
      { title: "VALUE", value: valueText },
      { title: "SCOPE", value: ({ scope, scope_id }) => scope_id ?? scope },
      { title: "VERSION", value: ({ version }) => version },
      { title: "SET", value: ({ updated_at }) => relative(updated_at, context.now()) },
      { title: "BY", value: ({ updated_by }) => updated_by ?? "–", wide: true },
      { title: "ID", value: ({ id }) => id, wide: true },
    ]);
  });
}
