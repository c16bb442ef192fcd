import type { GlobalOptions } from "./command.ts";
import type { Environment } from "./config.ts";
import { configPath } from "./credentials.ts";
import { toFailure, usage } from "./failure.ts";
import { isOutputFormat, OUTPUT_FORMATS, type OutputFormat, type OutputOptions } from "./output.ts";
import { readToml, textOf } from "./toml-file.ts";

/** Returns the path of the settings file. It is separate from the credentials, so that a logout keeps the settings. */
export const settingsPath = (environment: Environment): string => configPath(environment, "settings.toml");

export const SETTINGS = {
  output: { meaning: "Output format", choices: OUTPUT_FORMATS },
  pager: { meaning: "Command that shows long output; cat disables it", choices: undefined },
} as const;
export type SettingName = keyof typeof SETTINGS;
export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

export interface Settings {
  output: OutputFormat | undefined;
  pager: string | undefined;
  /** Describes an invalid setting in the file; undefined if all are valid. */
  problem: string | undefined;
}

export async function readSettings(environment: Environment): Promise<Settings> {
  const file = settingsPath(environment);
  const content = await readToml(file);
  const output = textOf(content.output);
  const pager = textOf(content.pager);
  if (output === undefined || isOutputFormat(output)) return { output, pager, problem: undefined };
  return { output: undefined, pager, problem: `output in ${file} is "${output}"; valid values are ${OUTPUT_FORMATS.join(", ")}` };
}

/** Returns the output options: flags override the environment, which overrides the settings. Invalid settings go to `warn`. */
export async function outputOptions(flags: GlobalOptions, environment: Environment, warn: (text: string) => void): Promise<OutputOptions> {
  if (flags.json && flags.output !== undefined && flags.output !== "json")
    throw usage(`--json and -o ${flags.output} cannot be used together`);
  const given = flags.json ? "json" : flags.output;
  const may_page = flags.pager && process.stdout.isTTY;
  // If the settings cannot change the output, do not read the file, so that an invalid file causes no warning.
  const settings = given !== undefined && !may_page ? undefined : await readOrWarn(environment, warn);
  if (settings?.problem !== undefined) warn(settings.problem);
  const format = given ?? settings?.output ?? "table";
  const { columns, headers } = flags;
  if (columns !== undefined && format !== "table" && format !== "wide")
    throw usage(`--columns applies to tables only, not to -o ${format}`);
  const command = (environment.pager ?? settings?.pager ?? "less").trim();
  const paged = may_page && command !== "" && command !== "cat";
  return { format, headers, columns, pager: paged ? { command, env: environment.pagerEnvironment() } : undefined };
}

/** Reads the settings. If the file is unreadable, prints a warning and returns undefined. */
async function readOrWarn(environment: Environment, warn: (text: string) => void): Promise<Settings | undefined> {
  try {
    return await readSettings(environment);
  } catch (error) {
    warn(toFailure(error).message);
    return undefined;
  }
}
