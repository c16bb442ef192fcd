import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { readSettings, SETTING_NAMES, SETTINGS } from "../../settings.ts";

export const define: Define = (command, act) => {
  command.action(act(run));
};

async function run(context: Context): Promise<void> {
  const { out } = context;
  const settings = await readSettings(context.environment);
  const items = SETTING_NAMES.map((name) => ({ name, value: settings[name] ?? null, meaning: SETTINGS[name].meaning }));
  await out.result({ items, next_cursor: null }, () =>
    out.table(items, [
      { title: "NAME", value: ({ name }) => name },
      { title: "VALUE", value: ({ value }) => value ?? "–" },
      { title: "MEANING", value: ({ meaning }) => meaning },
    ]),
  );
}
