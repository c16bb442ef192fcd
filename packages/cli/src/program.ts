import { describeVersion } from "@roamfleet/protocol/version";
import { Command, type CommanderError, Option } from "commander";
import metadata from "../package.json" with { type: "json" };
import type { CommandDefinition } from "./command.ts";
import { OUTPUT_FORMATS } from "./output.ts";
import { type Noun, registry, type Verb } from "./registry.ts";
import { topics } from "./topics.ts";

export interface Program {
  program: Command;
  /** Completes a command: loads the subcommands of a noun such as `robots`, or the arguments and options of a verb such as `list`. */
  complete: (command: Command) => Promise<void>;
  /** Returns the verb of a completed noun that runs if none is named. */
  defaultVerb: (noun: Command) => Command | undefined;
  /** Examples of the loaded commands. */
  examples: ReadonlyMap<Command, readonly string[]>;
  /** Returns the command whose arguments commander rejected: the error message refers to its help. */
  failed: () => Command;
}

/**
 * Builds the command tree. Commands initially have names and summaries only; the rest is loaded when a command is called or its help is
 * shown. `act` runs the called command.
 */
export function buildProgram(act: (run: CommandDefinition["run"], args: never[]) => Promise<void> = () => Promise.resolve()): Program {
  const pending = new Map<Command, () => void | Promise<void>>();
  const examples = new Map<Command, readonly string[]>();
  const default_verbs = new Map<Command, string>();
  const complete = async (command: Command): Promise<void> => {
    const step = pending.get(command);
    pending.delete(command);
    await step?.();
  };
  let failed: Command | undefined;
  // Makes commander throw instead of exiting, and records which command failed.
  const watchErrors = (command: Command): Command =>
    command.exitOverride((error: CommanderError) => {
      failed = command;
      throw error;
    });
  const addVerb = (parent: Command, { name, summary, load }: Verb, isDefault = false): void => {
    const command = watchErrors(parent.command(name, { isDefault })).summary(summary).description(`${summary}.`);
    pending.set(command, async () => {
      const { description, define, run, examples: lines } = await load();
      if (description !== undefined) command.description(description);
      define(command);
      command.action((...args: unknown[]) => act(run, args as never[]));
      if (lines.length === 0) return;
      examples.set(command, lines);
      command.addHelpText("after", `\nExamples:\n${lines.map((text) => `  $ ${text}`).join("\n")}`);
    });
  };
  const addNoun = (parent: Command, { name, summary, verbs, default_verb }: Noun): void => {
    const command = watchErrors(parent.command(name)).summary(summary).description(`${summary}.`).usage("<command>").helpCommand(false);
    command.hook("preSubcommand", (_noun, verb) => complete(verb));
    if (default_verb !== undefined) default_verbs.set(command, default_verb);
    pending.set(command, () => {
      for (const verb of verbs) addVerb(command, verb, verb.name === default_verb);
    });
  };

  const program = watchErrors(addRoot()).hook("preSubcommand", (_root, command) => complete(command));
  for (const { heading, commands } of registry) {
    program.commandsGroup(`${heading}:`);
    for (const entry of commands) {
      if ("verbs" in entry) addNoun(program, entry);
      else addVerb(program, entry);
    }
  }
  program.commandsGroup("Help:");
  for (const { name, summary } of topics)
    watchErrors(program.command(name, { hidden: true }))
      .summary(summary)
      .description(`${summary}: rf help ${name}`)
      .action(async () => void process.stdout.write((await import("./topic-texts.ts")).topicText(name)));
  const defaultVerb = (noun: Command): Command | undefined => noun.commands.find((verb) => verb.name() === default_verbs.get(noun));
  return { program, complete, defaultVerb, examples, failed: () => failed ?? program };
}

function addRoot(): Command {
  return new Command("rf")
    .description("The command line of Roamfleet: manage releases, deployments, configs, logs and robots.")
    .usage("<command> [options]")
    .version(describeVersion(metadata.version), "-V, --version", "Show the version")
    .addOption(new Option("-o, --output <format>", "Output format (default: table, or the `output` setting)").choices(OUTPUT_FORMATS))
    .option("--json", "Print exactly one JSON document on stdout: the same as -o json")
    .option("--columns <names>", "Table columns to show, such as id,name", (names: string) => names.split(","))
    .option("--no-headers", "Print tables without a header row")
    .option("--no-pager", "Print long output instead of showing it in $PAGER")
    .option("--base-url <url>", "Address of the service, for this call")
    .option("--profile <name>", "Profile in the credentials file")
    .option("--org <id>", "Org to use, if the token has several")
    .helpOption("-h, --help", "Show help")
    .helpCommand("help [command]", "Show the help of a command or topic")
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeErr: (text) => process.stdout.write(text), outputError: () => {} })
    .addHelpText("after", `\nTopics (rf help TOPIC):\n${topics.map(({ name, summary }) => `  ${name.padEnd(18)} ${summary}`).join("\n")}`);
}

/** Returns the words of a command as typed: `rf robots list`. */
export function commandPath(command: Command): string {
  return command.parent === null ? command.name() : `${commandPath(command.parent)} ${command.name()}`;
}
