import { Argument } from "commander";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { type SettingName, SETTING_NAMES, SETTINGS, settingsPath } from "../../settings.ts";
import { line } from "../../text.ts";
import { changeToml } from "../../toml-file.ts";

export const define: Define = (command, act) => {
  command
    .description("Save a setting for later calls of rf on this machine. Flags override it.")
    .addArgument(new Argument("<name>", "Name of the setting").choices(SETTING_NAMES))
    .argument("<value>", "Value; for output one of table, wide, json and yaml")
    .action(act<[SettingName, string]>(run));
  addExamples(command, ["rf settings set output wide", "rf settings set pager 'less -S'"]);
};

async function run(context: Context, name: SettingName, value: string): Promise<void> {
  const { choices } = SETTINGS[name];
  if (choices !== undefined && !choices.some((choice) => choice === value))
    throw usage(`${name} must be one of ${choices.join(", ")}, not "${value}"`);
  const { editToml } = await import("../../toml-edit.ts");
  await changeToml(settingsPath(context.environment), (text) => editToml(text, [], { [name]: value }));
  await context.out.result({ data: { name, value } }, () => context.out.line(line`${name} is now ${value}.`));
}
