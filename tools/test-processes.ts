import { appendFileSync, existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { root } from "../bin/launch.mjs";
import { read, send } from "./process-guard.ts";

/** Divides the test files among the processes that Node's test runner starts. */

/** A test file with such a line runs in a separate process; the line states why. */
const SEPARATE_PROCESS = /^\/\/ Separate process: /m;
const DURATIONS = path.join(root, "tools", "test-durations.json");
const LISTED_SECONDS_MIN = 5;
const SHARED = "shared.json";
/** A process takes no further file after this time or with this much memory, so that nothing accumulates over a whole run. */
const SHARED_MS_MAX = 120_000;
const SHARED_BYTES_MAX = 1_500_000_000;
const FILES_PER_PROCESS = 20;
/** Time for a process to end after its last file. */
const END_MS_MAX = Number(process.env.ROAMFLEET_TEST_END_MS ?? 60_000);
/** Name of the file to which shared processes append failures outside of any test, one per line. */
const PROBLEMS = "problems";
/** Time for a shared file, longer than the timeout of a test. The process that runs it is killed then: its event loop may be blocked. */
const FILE_MS_MAX = Number(process.env.ROAMFLEET_TEST_FILE_MS ?? 15 * 60_000);
/** Time for a process to exit after its last file. It is killed then, because a blocked thread delays its exit for ever. */
const EXIT_MS_MAX = 2 * END_MS_MAX;
const WATCH_MS = 1_000;
/** Time for the processes of a test file to end after it. */
const LEFT_MS_MAX = 5_000;
/** Concurrent test files, for 2 cores: each waits for other processes half of its time. With more, timeouts of real processes expire. */
export const CONCURRENCY = 3;

/**
 * Writes the entries of a run to its directory and returns their paths, in the order in which they are to start: first the files that
 * run separately, then processes that share the other files. Both run the longest files first, so that no long file runs alone at the end.
 */
export async function writeEntries(directory: string, files: readonly string[]): Promise<string[]> {
  const seconds = readDurations();
  const ordered = files.toSorted((a, b) => (seconds[b] ?? 0) - (seconds[a] ?? 0));
  const texts = new Map(await Promise.all(ordered.map(async (file) => [file, await readFile(path.join(root, file), "utf8")] as const)));
  const { own = [], shared = [] } = Object.groupBy(ordered, (file) => (SEPARATE_PROCESS.test(texts.get(file) ?? "") ? "own" : "shared"));
  await writeFile(path.join(directory, SHARED), JSON.stringify(shared));
  const sharing = (is_last: boolean): string =>
    `import { runShared } from ${JSON.stringify(import.meta.url)};\nawait runShared(import.meta.dirname, ${is_last});\n`;
  const separate = (file: string): string =>
    `import { after } from "node:test";\nimport { markDone } from ${JSON.stringify(import.meta.url)};\n` +
    `import ${JSON.stringify(pathToFileURL(path.join(root, file)))};\nafter(() => markDone(import.meta.dirname, ${JSON.stringify([file])}));\n`;
  // Enough shared processes for a slow machine, where each stops at its time limit. The last ones have no limit and run all files left.
  const processes = Math.ceil(shared.length / FILES_PER_PROCESS) + CONCURRENCY;
  const contents: [string, string][] = [
    ...own.map((file): [string, string] => [file, separate(file)]),
    ...Array.from({ length: processes }, (_, index): [string, string] => ["shared", sharing(index >= processes - CONCURRENCY)]),
  ];
  return Promise.all(
    contents.map(async ([file, text], index) => {
      const entry = path.join(directory, `${String(index).padStart(3, "0")} ${file.replaceAll("/", ":")}.mjs`);
      await writeFile(entry, text);
      return entry;
    }),
  );
}

/** Returns the test file of an entry, "shared" for a shared process, and undefined for any other path. */
export function fileOf(entry: string): string | undefined {
  return /^\d{3} (.+)\.mjs$/.exec(path.basename(entry))?.[1]?.replaceAll(":", "/");
}

/**
 * Runs shared files one after the other, each as a test. Skips those that another process has taken. Stops at the limits of time and
 * memory, except in the last processes of a run, which continue until no file is left.
 */
export async function runShared(directory: string, is_last: boolean): Promise<void> {
  const files = JSON.parse(readFileSync(path.join(directory, SHARED), "utf8")) as string[];
  const report = (problem: string): void => appendFileSync(path.join(directory, PROBLEMS), `${problem}\n`);
  // Create this process's output streams now, because streams created on first use would count as left open by a test file.
  for (const stream of [process.stdout, process.stderr]) stream.write("");
  const at_start = countResources();
  const open_after: { file: string; resources: Resources }[] = [];
  for (const [index, file] of files.entries()) {
    if (!is_last && (performance.now() > SHARED_MS_MAX || process.memoryUsage.rss() > SHARED_BYTES_MAX)) break;
    if (!take(takenMark(directory, index))) continue;
    const before = { ms: performance.now(), cpu: cpuSeconds() };
    await test(file, async () => {
      await import(pathToFileURL(path.join(root, file)).href);
    });
    await endLeftProcesses(file);
    writeFileSync(endedMark(directory, index), "");
    open_after.push({ file, resources: countResources() });
    // The runner has set the exit code if there was an error that belongs to no running test.
    if (process.exitCode) report(`${file}: an error outside of its tests, see above`);
    process.exitCode = undefined;
    const usage = { file, seconds: Math.round(performance.now() - before.ms) / 1000, cpu_seconds: cpuSeconds() - before.cpu };
    if (process.env.ROAMFLEET_TEST_USAGE !== undefined) appendFileSync(process.env.ROAMFLEET_TEST_USAGE, `${JSON.stringify(usage)}\n`);
  }
  markDone(
    directory,
    open_after.map(({ file }) => file),
  );
  // This timer does not keep the process running, so it fires only if a file has left something open.
  setTimeout(() => {
    const isMore = (resources: Resources, type: string): boolean => (resources[type] ?? 0) > (at_start[type] ?? 0);
    const at_end = countResources();
    for (const type of Object.keys(at_end).filter((type) => isMore(at_end, type))) {
      const first = open_after[open_after.findLastIndex(({ resources }) => !isMore(resources, type)) + 1];
      report(`${first?.file ?? "a process of many files"}: left open: ${type}`);
    }
    process.exit(1);
  }, END_MS_MAX).unref();
}

/** Active resources by type: `{ Timeout: 2 }`. */
type Resources = Partial<Record<string, number>>;

const countResources = (): Resources =>
  Object.fromEntries(
    Object.entries(Object.groupBy(process.getActiveResourcesInfo(), (type) => type)).map(([type, all]) => [type, all?.length]),
  );

/** Returns the failures outside of any test that shared processes have reported. */
export async function readProblems(directory: string): Promise<string[]> {
  const text = await readFile(path.join(directory, PROBLEMS), "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}

/** Returns the CPU time of this process and of its children that have ended, in seconds. */
function cpuSeconds(): number {
  const fields = readFileSync("/proc/self/stat", "latin1").split(") ")[1]?.split(" ").slice(11, 15) ?? [];
  return fields.reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

/**
 * Ends the processes that a test file has left behind with this process's output, and names them: Node's test runner would wait for them
 * for ever after the end of this process.
 */
async function endLeftProcesses(file: string): Promise<void> {
  const began = performance.now();
  const find = (): number[] => findProcessesWithOutput(outputOf(process.pid, 1), process.pid);
  let left = find();
  for (; left.length > 0 && performance.now() - began < LEFT_MS_MAX; left = find()) await sleep(50);
  for (const pid of left) {
    process.stdout.write(`roamfleet: ended a process that ${file} left behind: ${commandOf(pid).slice(0, 300)}\n`);
    send(pid, "SIGKILL");
  }
}

const commandOf = (pid: number): string => read(`/proc/${pid}/cmdline`).replaceAll("\0", " ");

/** Records that the tests of this process have ended, so that it must exit soon. */
export const markDone = (directory: string, files: readonly string[]): void =>
  writeFileSync(path.join(directory, `${DONE}${process.pid}`), JSON.stringify(files));

/** Returns what a descriptor of a process is, such as `pipe:[1234]`; undefined if the process has ended or does not have it. */
function outputOf(pid: number, descriptor: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${descriptor}`);
  } catch {
    return undefined;
  }
}

/** Returns the ids of the processes, other than `of`, that write to an output: the stdout of `of`. */
function findProcessesWithOutput(output: string | undefined, of: number): number[] {
  if (!output) return [];
  const pids = readdirSync("/proc").map(Number);
  return pids.filter((pid) => pid > 0 && pid !== of && [1, 2].some((descriptor) => outputOf(pid, descriptor) === output));
}

/** What `watchFiles` has seen. */
export interface Watch {
  /** Ends the watch. Returns the files of each process that did not exit after its last file, although its tests had ended. */
  stop(): string[][];
}

/**
 * Kills test processes that hang: a shared process if one test file takes longer than FILE_MS_MAX, and any if it does not exit within
 * EXIT_MS_MAX after its last test. With a shared process, also kills the other processes that write to its output.
 */
export function watchFiles(directory: string): Watch {
  const began = new Map<string, number>();
  const outputs = new Map<number, string>();
  const stuck: string[][] = [];
  const isLate = (mark: string, ms_max: number): boolean => {
    const since = began.get(mark) ?? performance.now();
    began.set(mark, since);
    if (performance.now() - since < ms_max) return false;
    began.set(mark, Infinity);
    return true;
  };
  // After a crash of a test process, its id may belong to another process, which must not be killed.
  const isTestProcess = (pid: number): boolean => commandOf(pid).includes(directory);
  const watchTaken = (mark: string): void => {
    const pid = Number(read(path.join(directory, mark)));
    const is_running = pid > 0 && isTestProcess(pid);
    if (is_running && !outputs.has(pid)) outputs.set(pid, outputOf(pid, 1) ?? "");
    if (existsSync(endedMark(directory, Number(mark.slice(TAKEN.length)))) || !isLate(mark, FILE_MS_MAX) || !is_running) return;
    for (const one of [...findProcessesWithOutput(outputs.get(pid), pid), pid]) send(one, "SIGKILL");
  };
  const watchDone = (mark: string): void => {
    if (!isLate(mark, EXIT_MS_MAX)) return;
    const pid = Number(mark.slice(DONE.length));
    const files = JSON.parse(read(path.join(directory, mark)) || "[]") as string[];
    for (const one of findProcessesWithOutput(outputs.get(pid), pid)) {
      process.stderr.write(`roamfleet: ended a process that a test process left behind: ${commandOf(one).slice(0, 300)}\n`);
      send(one, "SIGKILL");
    }
    if (!isTestProcess(pid)) return;
    process.stderr.write(
      `roamfleet: a test process did not exit after ${files.join(" ") || "running no file"}; its threads: ${threadsOf(pid)}\n`,
    );
    stuck.push(files);
    send(pid, "SIGKILL");
  };
  const timer = setInterval(() => {
    for (const name of readdirSync(directory)) {
      if (name.startsWith(TAKEN)) watchTaken(name);
      else if (name.startsWith(DONE)) watchDone(name);
    }
  }, WATCH_MS);
  return {
    stop: () => {
      clearInterval(timer);
      return stuck;
    },
  };
}

/** Returns what each thread of a process waits for. Each is its name and a kernel function: `node in do_epoll_wait, libuv-worker in fifo_open`. */
function threadsOf(pid: number): string {
  const directory = `/proc/${pid}/task`;
  const threads = existsSync(directory) ? readdirSync(directory) : [];
  const fieldOf = (thread: string, name: string): string => read(path.join(directory, thread, name)).trim();
  return threads.map((thread) => `${fieldOf(thread, "comm")} in ${fieldOf(thread, "wchan")}`).join(", ");
}

const TAKEN = "taken-";
const DONE = "done-";
const takenMark = (directory: string, index: number): string => path.join(directory, `${TAKEN}${index}`);
const endedMark = (directory: string, index: number): string => path.join(directory, `ended-${index}`);

/** Takes a file for this process, unless another one has taken it. The mark contains the id of the process. */
function take(mark: string): boolean {
  try {
    writeFileSync(mark, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Stores the durations of the long test files, in whole seconds. Files that are not listed are short. */
export async function keepDurations(seconds: Record<string, number>): Promise<void> {
  const long = Object.entries(seconds).filter(([, took]) => took >= LISTED_SECONDS_MIN);
  await writeFile(DURATIONS, `${JSON.stringify(Object.fromEntries(long.toSorted(([a], [b]) => (a < b ? -1 : 1))), null, 2)}\n`);
}

function readDurations(): Partial<Record<string, number>> {
  try {
    return JSON.parse(readFileSync(DURATIONS, "utf8")) as Partial<Record<string, number>>;
  } catch {
    return {};
  }
}
