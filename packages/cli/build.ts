import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { Plugin } from "program-bundler";
import { type Bundle, bundleProgram } from "../../tools/bundle.ts";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = path.join(here, "src");

/** Modules needed at every start: they are bundled into one file, because each file costs 0.5 ms to load. */
const STARTUP = ["config", "exit-codes", "output", "text"];

/**
 * Adds imports of all STARTUP modules to every module of this package. The bundler groups modules by the commands that need them, so the
 * STARTUP modules end up in one file.
 */
const oneStartupFile: Plugin = {
  name: "one-startup-file",
  setup(bundler) {
    const imports = ["commander", ...STARTUP.map((name) => path.join(source, `${name}.ts`))]
      .map((name) => `import ${JSON.stringify(name)};`)
      .join("\n");
    bundler.onLoad({ filter: /[/]packages[/]cli[/]src[/].*\.ts$/, namespace: "file" }, async ({ path: file }) => {
      const text = await readFile(file, "utf8");
      return { contents: STARTUP.includes(path.basename(file, ".ts")) ? text : `${text}\n${imports}`, loader: "ts" };
    });
  },
};

/** Bundles `rf` for publishing: one program loaded at every start, and one file per command, loaded when the command is called. */
export const bundleCli = (directory: string): Promise<Bundle> =>
  bundleProgram({ name: "rf", entry: path.join(source, "main.ts"), directory, plugins: [oneStartupFile] });

/** Bundles `rf` and returns the program's path. */
export async function buildCli(directory = path.join(here, "dist")): Promise<string> {
  return (await bundleCli(directory)).program;
}

if (import.meta.main) process.stdout.write(`${await buildCli()}\n`);
