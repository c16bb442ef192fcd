import { openSync, readSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/**
 * Loaded before a program whose event loop is measured: at the first SIGUSR2 it starts to measure, at the next it writes the longest blocks of
 * each window in milliseconds. JavaScript, because loading TypeScript takes memory.
 */
const TICK_MS = 1;
/** The agent's rarest regular work, a flush of logs, is in each window. Other work on the machine delays the loop only in some of them. */
const WINDOW_MS = 10_000;
/**
 * `total`: from when a timer was due until it ran. `own`: the same without the time in which the thread waited for a processor, so it is
 * what the program did itself, including waits for the disk.
 * @type {{ total: number, own: number }[]}
 */
const windows = [];
const file = path.join(tmpdir(), `roamfleet-bench-delay-${process.pid}`);
const schedstat = openSync("/proc/self/schedstat", "r");
const bytes = Buffer.alloc(128);
/** Returns for how long the main thread has waited for a processor since its start, in milliseconds. */
const waitedMs = () => Number(bytes.toString("latin1", 0, readSync(schedstat, bytes, 0, bytes.length, 0)).split(" ")[1]) / 1e6;

let is_measuring = false;
process.on("SIGUSR2", () => {
  if (is_measuring) return writeFileSync(file, JSON.stringify(windows));
  is_measuring = true;
  let [at, waited] = [performance.now(), waitedMs()];
  let longest = { total: 0, own: 0 };
  setInterval(() => {
    const [now, waited_now] = [performance.now(), waitedMs()];
    const total = now - at - TICK_MS;
    longest = { total: Math.max(longest.total, total), own: Math.max(longest.own, total - (waited_now - waited)) };
    [at, waited] = [now, waited_now];
  }, TICK_MS).unref();
  setInterval(() => {
    windows.push(longest);
    longest = { total: 0, own: 0 };
  }, WINDOW_MS).unref();
});
process.on("exit", () => rmSync(file, { force: true }));
