import path from "node:path";
import { fileURLToPath } from "node:url";
import { bundleProgram } from "../../tools/bundle.ts";

const here = path.dirname(fileURLToPath(import.meta.url));

/**
 * Bundles `rf-agent` for publishing: a program, and beside it what only some robots or moments need, such as the unpacking
 * of bundles. Idle it holds 64 MB, and 110 MB from source, where the remover of types is loaded too. Answers the program's path.
 */
export function buildAgent(directory = path.join(here, "dist")): Promise<string> {
  return bundleProgram({ name: "rf-agent", entry: path.join(here, "src", "main.ts"), directory });
}

if (import.meta.main) process.stdout.write(`${await buildAgent()}\n`);
