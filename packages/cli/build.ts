import { chmod, readFile, rm } from "node:fs/promises";
import { isBuiltin } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";

const here = path.dirname(fileURLToPath(import.meta.url));
const source = path.join(here, "src");

/**
 * Node's own modules, each fetched when something of it is used. An import statement would load them all at the start
 * and read every one of their properties, which loads what those are made of: 8 of the 40 ms that `rf --help` took.
 */
const lazyBuiltins: Plugin = {
  name: "lazy-builtins",
  setup(bundler) {
    // One for each importer, so that a start does not pay for what only some command takes from the same module.
    bundler.onResolve({ filter: /^[^./]/ }, ({ path: name, importer, kind }) => {
      if (!isBuiltin(name)) return undefined;
      const pluginData = name.replace(/^node:/, "");
      return {
        path: `${pluginData} of ${importer}`,
        pluginData,
        namespace: kind === "require-call" ? "required-builtin" : "imported-builtin",
      };
    });
    bundler.onLoad({ filter: /.*/, namespace: "required-builtin" }, ({ pluginData }) => ({
      contents: `module.exports = ${fetchBuiltin(pluginData)}`,
    }));
    bundler.onLoad({ filter: /.*/, namespace: "imported-builtin" }, ({ pluginData }) => ({ contents: importedBuiltin(pluginData) }));
  },
};

const fetchBuiltin = (name: string): string => `process.getBuiltinModule(${JSON.stringify(`node:${name}`)})`;

/** Names that nobody imports are left out by the bundler, as nothing happens when they are made. */
function importedBuiltin(name: string): string {
  const names = Object.keys(process.getBuiltinModule(`node:${name}`) as object).filter(
    (key) => /^[A-Za-z_]\w*$/.test(key) && key !== "default",
  );
  const exported = names.map(
    (key) => `const $${key} = /* @__PURE__ */ (() => ${fetchBuiltin(name)}.${key})(); export { $${key} as ${key} };`,
  );
  const whole = name === "process" ? "process" : `/* @__PURE__ */ new Proxy({}, { get: (_, key) => ${fetchBuiltin(name)}[key] })`;
  return [...exported, `export default ${whole};`].join("\n");
}

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
