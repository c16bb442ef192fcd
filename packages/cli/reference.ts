import { writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Argument, Command, Option } from "commander";
import { examples } from "./src/command.ts";
import { EXIT_MEANINGS } from "./src/exit-codes.ts";
import { buildProgram, commandPath } from "./src/program.ts";
import { registry } from "./src/registry.ts";
import { topicText } from "./src/topic-texts.ts";
import { ENVIRONMENT, topics } from "./src/topics.ts";

/** Where the reference is checked in. */
export const REFERENCE_FILE = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../docs/reference/commands.md");

/** The reference of every command as Markdown, made of the definitions that the program itself runs on. */
export async function writeReference(): Promise<string> {
  const { program, complete } = buildProgram(() => () => Promise.resolve());
  const find = (parent: Command, name: string): Command => parent.commands.find((command) => command.name() === name)!;
  const parts = [
    "# Commands of `rf`",
    "<!-- Made by packages/cli/reference.ts from the commands themselves: change those, then run it. -->",
    `${program.description()} Flags of every command stand in front of it or behind it.`,
    optionTable(program.options),
  ];
  for (const { heading, commands } of registry) {
    parts.push(`## ${heading}`);
    for (const entry of commands) {
      const command = find(program, entry.name);
      await complete(command);
      if (!("verbs" in entry)) parts.push(...describe(command));
      for (const { name } of "verbs" in entry ? entry.verbs : []) {
        const verb = find(command, name);
        await complete(verb);
        parts.push(...describe(verb));
      }
    }
  }
  const codes = Object.entries(EXIT_MEANINGS).map(([code, meaning]) => [code, meaning] as const);
  parts.push("## Exit codes", table(["Code", "Meaning"], codes));
  parts.push(
    "## Environment",
    table(
      ["Variable", "Meaning"],
      ENVIRONMENT.map(([name, meaning]) => [`\`${name}\``, meaning] as const),
    ),
  );
  // The tables above are the other two.
  for (const { name, summary } of topics.filter(({ name }) => name !== "exit-codes" && name !== "environment"))
    parts.push(`## \`rf help ${name}\``, `${summary}.`, `\`\`\`text\n${topicText(name)}\`\`\``);
  return `${parts.join("\n\n")}\n`;
}

function describe(command: Command): string[] {
  const parts = [`### \`${usage(command)}\``, command.description()];
  const rows = command.registeredArguments.filter(({ description }) => description !== "");
  if (rows.length > 0)
    parts.push(
      table(
        ["Argument", "Meaning"],
        rows.map((argument) => [`\`${argumentName(argument)}\``, argument.description] as const),
      ),
    );
  if (command.options.length > 0) parts.push(optionTable(command.options));
  const lines = examples.get(command);
  if (lines !== undefined) parts.push(["```sh", ...lines, "```"].join("\n"));
  return parts;
}

const argumentName = (argument: Argument): string => (argument.required ? `<${argument.name()}>` : `[${argument.name()}]`);
const usage = (command: Command): string => [commandPath(command), ...command.registeredArguments.map(argumentName)].join(" ");

function optionTable(options: readonly Option[]): string {
  return table(
    ["Flag", "Meaning"],
    options.map((option) => {
      const notes = [
        option.mandatory ? "Required." : "",
        option.argChoices === undefined ? "" : `One of ${option.argChoices.map((choice) => `\`${choice}\``).join(", ")}.`,
        option.defaultValue === undefined ? "" : `Default: \`${String(option.defaultValue)}\`.`,
      ];
      return [`\`${option.flags}\``, [`${option.description}.`, ...notes].filter((note) => note !== "").join(" ")] as const;
    }),
  );
}

function table(head: readonly [string, string], rows: readonly (readonly [string, string])[]): string {
  const cell = (text: string): string => text.replaceAll("|", "\\|");
  return [head, ["---", "---"] as const, ...rows].map(([left, right]) => `| ${cell(left)} | ${cell(right)} |`).join("\n");
}

if (import.meta.main) {
  await writeFile(REFERENCE_FILE, await writeReference());
  process.stdout.write(`${REFERENCE_FILE}\n`);
}
