import { CommanderError } from "commander";
import type { GlobalOptions } from "./command.ts";
import { readEnvironment } from "./config.ts";
import type { Context } from "./context.ts";
import { EXIT } from "./exit-codes.ts";
import { Output, scanFormat } from "./output.ts";
import { buildProgram, commandPath } from "./program.ts";
import { registry } from "./registry.ts";
import { plain } from "./text.ts";
import { topics } from "./topics.ts";

// A reader that closes the pipe early (`rf … | head`) is not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.error));
const words = process.argv.slice(2);
if (words[0] === "__complete") await (await import("./completion/answer.ts")).answerCompletion(words.slice(1));
else await main(helpInOrder(words));

async function main(args: string[]): Promise<void> {
  const environment = readEnvironment();
  // setGlobalProxyFromEnv applies NO_PROXY too. The import takes 9 ms.
  if (environment.has_proxy) (await import("node:http")).setGlobalProxyFromEnv();
  const out = new Output({ format: scanFormat(args) ?? "table", colors: environment.colors });
  let context: Context | undefined;
  const { program, failed } = buildProgram(async (run, args) => {
    const flags = program.opts<GlobalOptions>();
    const [loaded, { outputOptions }] = await Promise.all([import("./context.ts"), import("./settings.ts")]);
    context = new loaded.Context(out, { base_url: flags.baseUrl, profile: flags.profile, org: flags.org }, environment);
    process.on("SIGINT", endByInterrupt);
    out.configure(await outputOptions(flags, environment, (text) => out.note(`warning: ${plain(text)}`)));
    try {
      await run(context, ...args);
    } catch (error) {
      const replaced = await (await import("./names.ts")).replaceNames(context, args, error);
      if (replaced === undefined) throw error;
      await run(context, ...(replaced as never[]));
    }
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError && (error.exitCode === 0 || error.code === "commander.help")) return;
    const { Failure, toFailure } = await import("./failure.ts");
    let failure = context === undefined ? toFailure(error) : context.failure(error);
    if (error instanceof CommanderError) {
      const help = `\`${commandPath(failed())} --help\` lists the options.`;
      failure = new Failure(failure.exit_code, failure.message, { hints: [...failure.hints, help] });
    }
    process.exitCode = failure.exit_code;
    await out.fail(failure, environment.debug);
  }
}

/** Ends the process on Ctrl-C if the command has no handler. Restores the cursor and line wrapping that a progress bar has disabled. */
function endByInterrupt(): void {
  process.stderr.write(process.stderr.isTTY ? "\n\u001b[?25h\u001b[?7hinterrupted\n" : "interrupted\n");
  process.exit(EXIT.interrupted);
}

/**
 * Rewrites `rf help robots list` and `rf robots help list` to `rf robots list --help`, which loads the command's options. An unknown
 * command is left for commander to report.
 */
function helpInOrder(args: string[]): string[] {
  const entries = registry.flatMap(({ commands }) => commands);
  const nouns = entries.filter((entry) => "verbs" in entry).map(({ name }) => name);
  if (args[1] === "help" && nouns.includes(args[0]!)) return [...args.toSpliced(1, 1), "--help"];
  if (args[0] !== "help" || args.length === 1) return args;
  if (topics.some(({ name }) => name === args[1])) return args.slice(1, 2);
  const known = entries.some(({ name }) => name === args[1]) || args[1]!.startsWith("-");
  return known ? [...args.slice(1), "--help"] : args.slice(1, 2);
}
