import { addExamples, type Define } from "../../command.ts";
import { findEntryId, type ScopeOptions, scopeOptions, valueText } from "../../config-scope.ts";
import type { Context } from "../../context.ts";
import { type LimitOption, limitOption, readList } from "../../lists.ts";

export const define: Define = (command, act) => {
  command.description("List every version of a value, newest first, also of a removed value.").argument("<key>", "Key, or id of the entry");
  limitOption(scopeOptions(command)).action(act<[string, ScopeOptions & LimitOption]>(run));
  addExamples(command, ["rf configs history speed_limit --fleet fleet_…"]);
};

async function run(context: Context, key: string, options: ScopeOptions & LimitOption): Promise<void> {
  const { out } = context;
  const client = await context.client();
  const id = await findEntryId(client, key, options);
  const answer = await readList(client, "listConfigHistory", options.limit, { params: { id } });
  await out.result(answer, () =>
    out.table(answer.items, [
      { title: "VERSION", value: ({ version }) => version },
      { title: "TIME", value: ({ at }) => at },
      { title: "CHANGE", value: ({ change, rollback_of }) => (rollback_of === null ? change : `${change} to ${rollback_of}`) },
      { title: "VALUE", value: (version) => (version.change === "removed" ? "" : valueText(version)) },
      { title: "BY", value: ({ actor }) => actor.name ?? actor.id ?? actor.type },
    ]),
  );
}
