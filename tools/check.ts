import path from "node:path";
import { root } from "../bin/launch.mjs";
import { runChild } from "../bin/run-child.mjs";

interface Check {
  name: string;
  command: string;
  args: readonly string[];
  /** How to fix a finding. */
  advice: string;
}

const CHECKS: readonly Check[] = [
  { name: "types", command: "tsc", args: ["--project", "tsconfig.json"], advice: "strict TypeScript, see tsconfig.json" },
  {
    name: "types of the dashboard",
    command: "tsc",
    args: ["--project", "packages/dashboard/tsconfig.json"],
    advice: "strict TypeScript with the browser's types, see packages/dashboard/tsconfig.json",
  },
  { name: "lint and import boundaries", command: "oxlint", args: [], advice: "rules and allowed imports: .oxlintrc.json" },
  { name: "formatting", command: "oxfmt", args: ["--check"], advice: "npm run format writes it" },
  {
    name: "unused files, exports, dependencies",
    command: "knip",
    args: ["--no-progress", "--no-config-hints"],
    advice: "delete what is unused; entry points: knip.json",
  },
];

await main();

/** `npm run check [-- NAME PART…]`: runs every check even if an earlier one fails. The exit code is 1 if any failed. */
async function main(): Promise<void> {
  const parts = process.argv.slice(2);
  const chosen = CHECKS.filter(({ name }) => parts.length === 0 || parts.some((part) => name.includes(part)));
  const failed: Check[] = [];
  for (const check of chosen) {
    process.stdout.write(`\n— ${check.name} (${check.command})\n`);
    const started_at_ms = performance.now();
    const binary = path.join(root, "node_modules", ".bin", check.command);
    const { code, signal } = await runChild(process.execPath, [binary, ...check.args], { cwd: root });
    if (signal === "SIGINT" || signal === "SIGTERM") return endEarly(signal);
    const seconds = ((performance.now() - started_at_ms) / 1000).toFixed(1);
    process.stdout.write(code === 0 ? `  ok, ${seconds} s\n` : `  FAILED, ${seconds} s: ${check.advice}\n`);
    if (code !== 0) failed.push(check);
  }
  process.stdout.write(`\n${chosen.length - failed.length} of ${chosen.length} checks passed`);
  process.stdout.write(failed.length === 0 ? "\n" : `; failed: ${failed.map(({ name }) => name).join(", ")}\n`);
  process.exitCode = failed.length === 0 && chosen.length > 0 ? 0 : 1;
}

function endEarly(signal: NodeJS.Signals): void {
  process.stdout.write(`  stopped by ${signal}\n`);
  process.exitCode = 130;
}
