import { chmod, rm } from "node:fs/promises";
import path from "node:path";
import { build, type Plugin } from "esbuild";
import { readCommit } from "../packages/protocol/src/version.ts";
import { lazyBuiltins } from "./lazy-builtins.ts";
import { namedExports } from "./named-exports.ts";

const CLONE = path.resolve(import.meta.dirname, "..");

export interface BundleOptions {
  /** Name of the program. */
  name: string;
  /** Path of its TypeScript entry file. */
  entry: string;
  /** Output directory, which is recreated. */
  directory: string;
  plugins?: readonly Plugin[];
}

/** Bundles a program for publishing, with separate files for parts that are loaded later. Returns the program's path. */
export async function bundleProgram({ name, entry, directory, plugins = [] }: BundleOptions): Promise<string> {
  await rm(directory, { recursive: true, force: true });
  await build({
    entryPoints: { [name]: entry },
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
    // Optional native parts of ws, which works without them.
    external: ["bufferutil", "utf-8-validate"],
    define: { ROAMFLEET_COMMIT: JSON.stringify(readCommit(CLONE) ?? "") },
    plugins: [lazyBuiltins, ...plugins, namedExports],
    banner: { js: "#!/usr/bin/env node" },
    logLevel: "warning",
  });
  const program = path.join(directory, `${name}.mjs`);
  await chmod(program, 0o755);
  return program;
}
