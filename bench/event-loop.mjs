import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";

/**
 * Loaded before a program whose event loop is measured: at the first SIGUSR2 it starts to measure, at the next it writes the longest delay of
 * each window in milliseconds. JavaScript, because loading TypeScript takes memory.
 */
const RESOLUTION_MS = 1;
/** The agent's rarest regular work, a flush of logs, is in each window. Other work on the machine delays the loop only in some of them. */
const WINDOW_MS = 10_000;
/** @type {number[]} */
const maxima = [];
const file = path.join(tmpdir(), `roamfleet-bench-delay-${process.pid}`);
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
/** @type {NodeJS.Timeout | undefined} */
let windows;
process.on("SIGUSR2", () => {
  if (windows !== undefined) return writeFileSync(file, JSON.stringify(maxima));
  delay.enable();
  windows = setInterval(() => {
    maxima.push(delay.max / 1e6 - RESOLUTION_MS);
    delay.reset();
  }, WINDOW_MS).unref();
});
process.on("exit", () => rmSync(file, { force: true }));
