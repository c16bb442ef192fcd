import { Argument } from "commander";
import { defineCommand } from "../command.ts";
import { usage } from "../failure.ts";
import { readSettings, type SettingName, SETTING_NAMES, SETTINGS, settingsPath } from "../settings.ts";
import { line } from "../text.ts";
import { changeToml } from "../toml-file.ts";

export const list = defineCommand<[]>(
  undefined,
  () => {},
  async ({ environment, out }) => {
    const settings = await readSettings(environment);
    const items = SETTING_NAMES.map((name) => ({ name, value: settings[name] ?? null, meaning: SETTINGS[name].meaning }));
    await out.result({ items, next_cursor: null }, () =>
      out.table(items, [
        { title: "NAME", value: ({ name }) => name },
        { title: "VALUE", value: ({ value }) => value ?? "–" },
        { title: "MEANING", value: ({ meaning }) => meaning },
      ]),
    );
  },
);

export const set = defineCommand<[SettingName, string]>(
  "Save a setting for later calls of rf on this machine. Flags override it.",
  (command) =>
    command
      .addArgument(new Argument("<name>", "Name of the setting").choices(SETTING_NAMES))
      .argument("<value>", "Value; for output one of table, wide, json and yaml"),
  async ({ environment, out }, name, value) => {
    const { choices } = SETTINGS[name];
    if (choices !== undefined && !choices.some((choice) => choice === value))
      throw usage(`${name} must be one of ${choices.join(", ")}, not "${value}"`);
    const { editToml } = await import("../toml-edit.ts");
    await changeToml(settingsPath(environment), (text) => editToml(text, [], { [name]: value }));
    await out.result({ data: { name, value } }, () => out.line(line`${name} is now ${value}.`));
  },
  ["rf settings set output wide", "rf settings set pager 'less -S'"],
);

export const unset = defineCommand<[SettingName]>(
  undefined,
  (command) => command.addArgument(new Argument("<name>", "Name of the setting").choices(SETTING_NAMES)),
  async ({ environment, out }, name) => {
    const { editToml } = await import("../toml-edit.ts");
    await changeToml(settingsPath(environment), (text) => editToml(text, [], { [name]: undefined }));
    await out.result({ data: { name, value: null } }, () => out.line(`${name} is reset to its default.`));
  },
);
