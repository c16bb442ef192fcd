import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { globSync, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { runChild } from "../../bin/run-child.mjs";
import type { Proof } from "../../tests/harness/promise.ts";
import { renderPage } from "./page.ts";
import { PROMISES, type PromiseRow } from "./promises.ts";

const USAGE = `npm run promises [-- --quick] [NUMBER…]

Proves what Robofleet guarantees and prints each guarantee with the figure that its test measured.
Without NUMBER all of them, and docs/reference/promises.md is written. --quick: the sizes of npm test.
`;

/** Whole figures take longer than a test of `npm test` may; each test has its own, shorter limit. */
const FILE_TIMEOUT_MS = 3_600_000;

await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<void> {
  const unknown = args.filter((arg) => arg !== "--quick" && !PROMISES.some(({ number }) => String(number) === arg));
  if (unknown.length > 0) {
    process.stderr.write(`unknown: ${unknown.join(" ")}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const quick = args.includes("--quick");
  const wanted = PROMISES.filter(({ number }) => args.length === (quick ? 1 : 0) || args.includes(String(number)));
  const files = filesOf(wanted);
  const directory = await mkdtemp(path.join(os.tmpdir(), "robofleet-promises-"));
  try {
    const proofs = path.join(directory, "proofs.ndjson");
    const { code } = await runChild(
      process.execPath,
      [path.join(root, "tools", "test.ts"), ...files, "--test-concurrency=1", `--test-timeout=${FILE_TIMEOUT_MS}`],
      {
        cwd: root,
        env: { ...process.env, ROBOFLEET_PROMISES_FILE: proofs, ...(quick ? {} : { ROBOFLEET_PROMISES: "full" }) },
      },
    );
    const proven = readProofs(await readFile(proofs, "utf8").catch(() => ""));
    report(wanted, proven);
    const whole = wanted.length === PROMISES.length && !quick;
    if (whole) await writeFile(path.join(root, "docs", "reference", "promises.md"), renderPage(proven, machine()));
    process.exitCode = code === 0 && wanted.every(({ number }) => proven.has(number)) ? 0 : 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** The test files that say one of these promises. */
function filesOf(wanted: readonly PromiseRow[]): string[] {
  const found = globSync("{tests,packages}/**/*.test.ts", { cwd: root, exclude: (name) => name === "node_modules" || name === "dist" });
  const numbers = new Set(wanted.map(({ number }) => number));
  return found.filter((file) => {
    const text = readFileSync(path.join(root, file), "utf8");
    return Array.from(text.matchAll(/provePromise\(\s*\w+,\s*(\d+)/g)).some(([, number]) => numbers.has(Number(number)));
  });
}

/** The figures by promise; several tests may prove one. */
function readProofs(lines: string): Map<number, string[]> {
  const proofs = lines.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Proof]));
  return new Map([...Map.groupBy(proofs, ({ promise }) => promise)].map(([number, own]) => [number, own.map(({ figure }) => figure)]));
}

function report(wanted: readonly PromiseRow[], proven: ReadonlyMap<number, readonly string[]>): void {
  process.stdout.write("\n");
  for (const { number, promise } of wanted) {
    const figures = proven.get(number);
    process.stdout.write(`${figures === undefined ? "NOT PROVEN" : "proven    "} ${String(number).padStart(2)}  ${promise}\n`);
    for (const figure of figures ?? []) process.stdout.write(`                 ${figure}\n`);
  }
  process.stdout.write(`\n${wanted.filter(({ number }) => proven.has(number)).length} of ${wanted.length} promises proven\n`);
}

function machine(): string {
  const [cpu] = os.cpus();
  return `${os.cpus().length} × ${cpu?.model.trim() ?? "unknown processor"}, ${Math.round(os.totalmem() / 1024 ** 3)} GiB, Linux ${os.release()}, Node ${process.versions.node}`;
}
