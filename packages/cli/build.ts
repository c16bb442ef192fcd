import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "esbuild";
import { bundleProgram } from "../../tools/bundle.ts";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = path.join(here, "src");

/** What every start needs: it becomes one file, since each file costs half a millisecond. */
const STARTUP = ["config", "exit-codes", "output", "text"];

/**
 * The bundler makes a file of the modules that the same commands need. All of ours import all of STARTUP here, so that
 * those end up in one.
 */
const oneStartupFile: Plugin = {
  name: "one-startup-file",
  setup(bundler) {
    const imports = ["commander", ...STARTUP.map((name) => path.join(source, `${name}.ts`))]
      .map((name) => `import ${JSON.stringify(name)};`)
      .join("\n");
    // The last lines of each of our modules but those.
    bundler.onLoad({ filter: /[/]packages[/]cli[/]src[/].*\.ts$/ }, async ({ path: file }) => {
      const text = await readFile(file, "utf8");
      return { contents: STARTUP.includes(path.basename(file, ".ts")) ? text : `${text}\n${imports}`, loader: "ts" };
    });
  },
};

/**
 * Bundles `rf` for publishing: a program that is loaded at every start, and beside it a file for each command that is
 * loaded when the command is called. Answers the path of the program.
 */
export function buildCli(directory = path.join(here, "dist")): Promise<string> {
  return bundleProgram({ name: "rf", entry: path.join(source, "main.ts"), directory, plugins: [oneStartupFile] });
}

if (import.meta.main) process.stdout.write(`${await buildCli()}\n`);
