import type { Define } from "../../command.ts";
import { valueText } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { relative } from "../../duration.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  limitOption(command).action(act<[LimitOption]>(run));
};

async function run(context: Context, options: LimitOption): Promise<void> {
  const { out } = context;
  const answer = await readList(await context.client(), "listConfigs", options.limit, {});
  await out.result(answer, () => {
    if (answer.items.length === 0) return out.note("No config entries yet. Set one: rf configs set <key> <value>");
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
