import { chmod, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { lazyBuiltins } from "../../tools/lazy-builtins.ts";

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
export async function buildCli(directory = path.join(here, "dist")): Promise<string> {
  await rm(directory, { recursive: true, force: true });
  await build({
    entryPoints: { rf: path.join(source, "main.ts") },
    outdir: directory,
    outExtension: { ".js": ".mjs" },
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    minify: true,
    format: "esm",
    platform: "node",
    target: "node24",
    legalComments: "linked",
    // Optional native parts of ws: it asks for them and does without.
    external: ["bufferutil", "utf-8-validate"],
    plugins: [lazyBuiltins, oneStartupFile],
    banner: { js: "#!/usr/bin/env node" },
    logLevel: "warning",
  });
  const program = path.join(directory, "rf.mjs");
  await chmod(program, 0o755);
  return program;
}

if (import.meta.main) process.stdout.write(`${await buildCli()}\n`);
