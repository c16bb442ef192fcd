import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { root } from "../../bin/launch.mjs";
import { runChild } from "../../bin/run-child.mjs";
import type { Proof } from "../../tests/harness/promise.ts";
import { changedFiles, promisesConcerned } from "./changed.ts";
import { type Kept, renderPage } from "./page.ts";
import { proofsInTests } from "./proofs.ts";
import { PROMISES, type PromiseRow } from "./promises.ts";

const USAGE = `npm run promises [-- --quick] [--changed] [NUMBER…]

Proves what Roamfleet guarantees and prints each guarantee with the figure that its test measured.
Without NUMBER all of them. What was proven is kept in docs/reference/promises.json and shown in promises.md beside it.
--changed: those whose tests use a file that differs from main, committed or not.
--quick: the sizes of npm test; kept, and called so, only where nothing at full size is.
`;

/** Timeout of a test file, because full-size proofs take longer than `npm test` allows. Each proof also has a shorter timeout. */
const FILE_TIMEOUT_MS = 4 * 3_600_000;

await main(process.argv.slice(2));

async function main(args: readonly string[]): Promise<void> {
  const unknown = args.filter((arg) => arg !== "--quick" && arg !== "--changed" && !PROMISES.some(({ number }) => String(number) === arg));
  if (unknown.length > 0) {
    process.stderr.write(`unknown: ${unknown.join(" ")}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const quick = args.includes("--quick");
  const numbers = args.filter((arg) => !arg.startsWith("--")).map(Number);
  const concerned = args.includes("--changed") ? promisesConcerned(changedFiles()) : undefined;
  const chosen = concerned === undefined ? numbers : [...concerned, ...numbers];
  if (concerned !== undefined) process.stdout.write(`promises that the change concerns: ${concerned.join(" ") || "none"}\n`);
  if (concerned !== undefined && chosen.length === 0) return;
  const wanted = PROMISES.filter(({ number }) => chosen.length === 0 || chosen.includes(number));
  const { files, expected } = findProofs(wanted);
  const directory = await mkdtemp(path.join(os.tmpdir(), "roamfleet-promises-"));
  try {
    const proofs = path.join(directory, "proofs.ndjson");
    const runner = ["bin/under-launcher.mjs", "tools/test.ts"].map((file) => path.join(root, file));
    const { code } = await runChild(process.execPath, [...runner, ...files, "--test-concurrency=1", `--test-timeout=${FILE_TIMEOUT_MS}`], {
      // Ends the test run if this process is killed.
      lifeline: true,
      cwd: root,
      env: { ...process.env, ROAMFLEET_PROMISES_FILE: proofs, ...(quick ? {} : { ROAMFLEET_PROMISES: "full" }) },
    });
    const proven = readProofs(await readFile(proofs, "utf8").catch(() => ""));
    // A promise with several proofs is proven only if all of them succeeded.
    for (const [number, figures] of proven) if (figures.length < (expected.get(number) ?? 0)) proven.delete(number);
    report(wanted, proven);
    await keep(wanted, proven, quick);
    process.exitCode = code === 0 && wanted.every(({ number }) => proven.has(number)) ? 0 : 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Returns the test files that prove one of these promises, and the number of proofs of each promise. */
function findProofs(wanted: readonly PromiseRow[]): { files: string[]; expected: ReadonlyMap<number, number> } {
  const numbers = new Set(wanted.map(({ number }) => number));
  const proofs = proofsInTests().filter(({ promise }) => numbers.has(promise));
  const expected = new Map<number, number>();
  for (const { promise } of proofs) expected.set(promise, (expected.get(promise) ?? 0) + 1);
  return { files: [...new Set(proofs.map(({ file }) => file))], expected };
}

/** Stores the results of a run beside earlier ones, and rewrites the page. */
async function keep(wanted: readonly PromiseRow[], proven: ReadonlyMap<number, readonly string[]>, quick: boolean): Promise<void> {
  const file = path.join(root, "docs", "reference", "promises.json");
  const kept = JSON.parse(await readFile(file, "utf8").catch(() => "{}")) as Kept;
  for (const { number } of wanted) {
    const figures = proven.get(number);
    const whole = kept[number] !== undefined && kept[number].size !== "test";
    if (figures === undefined || (quick && whole)) continue;
    kept[number] = { figures, date: new Date().toISOString().slice(0, 10), machine: machine(), ...(quick ? { size: "test" } : {}) };
  }
  await writeFile(file, `${JSON.stringify(kept, null, 2)}\n`);
  await writeFile(path.join(root, "docs", "reference", "promises.md"), renderPage(kept));
}

/** Returns the figures by promise number. Several tests may prove one promise. */
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
