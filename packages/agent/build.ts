import { chmod, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { lazyBuiltins } from "../../tools/lazy-builtins.ts";

const here = path.dirname(fileURLToPath(import.meta.url));

/**
 * Bundles `rf-agent` for publishing: a program, and beside it what only some robots or moments need, such as the unpacking
 * of bundles. Idle it holds 64 MB, and 110 MB from source, where the remover of types is loaded too. Answers the program's path.
 */
export async function buildAgent(directory = path.join(here, "dist")): Promise<string> {
  await rm(directory, { recursive: true, force: true });
  await build({
    entryPoints: { "rf-agent": path.join(here, "src", "main.ts") },
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
    plugins: [lazyBuiltins],
    banner: { js: "#!/usr/bin/env node" },
    logLevel: "warning",
  });
  const program = path.join(directory, "rf-agent.mjs");
  await chmod(program, 0o755);
  return program;
}

if (import.meta.main) process.stdout.write(`${await buildAgent()}\n`);
