import { Argument } from "commander";
import type { Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { type SettingName, SETTING_NAMES, settingsPath } from "../../settings.ts";
import { changeToml } from "../../toml-file.ts";

export const define: Define = (command, act) => {
  command.addArgument(new Argument("<name>", "Name of the setting").choices(SETTING_NAMES)).action(act<[SettingName]>(run));
};

async function run(context: Context, name: SettingName): Promise<void> {
  const { editToml } = await import("../../toml-edit.ts");
  await changeToml(settingsPath(context.environment), (text) => editToml(text, [], { [name]: undefined }));
  await context.out.result({ data: { name, value: null } }, () => context.out.line(`${name} is reset to its default.`));
}
