import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { LogSpool } from "../../spool/log-spool.ts";
import type { LogKillTask } from "../../testing/log-kill-driver.ts";

const DRIVER = join(import.meta.dirname, "../../testing/log-kill-driver.ts");
/**
 * Number of lines in a complete run, and the line numbers after which a run is killed: the first, those around each rotation, and the last
 * but one.
 */
const LINES = 30;
const KILL_AT = [1, 10, 11, 20, 29];
const WAIT_MS = 60_000;

/** Runs the driver until it kills itself or has read the last line; `while_running` is called once it has started. */
function run(task: LogKillTask, while_running: () => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [DRIVER, JSON.stringify(task)], { stdio: ["ignore", "pipe", "inherit"] });
    const late = setTimeout(() => child.kill("SIGTERM"), WAIT_MS);
    child.stdout.once("data", while_running);
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(late);
      resolve(signal ?? `exit ${code}`);
    });
  });
}

const stored = (state: string, memory: string | undefined): string[] => {
  const spool = new LogSpool({
    directory: join(state, "logs"),
    memory_directory: memory,
    bytes_max: 64 * 1024 * 1024,
    clock: systemClock,
    now: () => new Date(),
    on_disk: () => {},
  });
  const lines: string[] = [];
  for (let batch = spool.next({ records: 1_000, bytes: 1e9 }); batch !== undefined; batch = spool.next({ records: 1_000, bytes: 1e9 }))
    lines.push(...batch.lines.map((line) => (JSON.parse(line) as { message: string }).message));
  spool.close();
  return lines;
};

for (const is_connected of [false, true])
  test(
    `${is_connected ? "a connected agent" : "an agent"} killed before, between or after log rotations loses no line`,
    { timeout: 240_000 },
    async () => {
      for (const kill_at of KILL_AT) {
        const base = mkdtempSync(join(tmpdir(), "roamfleet-kill-"));
        const [state, log] = [join(base, "state"), join(base, "app.log")];
        mkdirSync(state);
        const memory = is_connected ? join(base, "memory") : undefined;
        appendFileSync(log, "");
        const write = (from: number, to: number): void => {
          for (let i = from; i <= to; i += 1) appendFileSync(log, `line ${i} of ${LINES}\n`);
        };
        const task: LogKillTask = {
          state,
          globs: [join(base, "*.log")],
          kill_at,
          ...(memory === undefined ? {} : { memory }),
          last: `line ${LINES} of ${LINES}`,
        };
        const how = await run(task, () => {
          write(1, 10);
          renameSync(log, `${log}.1`);
          write(11, 20);
          copyFileSync(log, `${log}.2`);
          truncateSync(log);
          write(21, LINES);
        });
        assert.equal(how, "SIGKILL");
        assert.equal(await run({ ...task, kill_at: 0 }, () => {}), "exit 0");
        const lines = stored(state, memory);
        const missing = Array.from({ length: LINES }, (_, i) => `line ${i + 1} of ${LINES}`).filter((line) => !lines.includes(line));
        assert.deepEqual(missing, [], `killed behind ${kill_at}: ${lines.join(", ")}`);
        // The agent may die before it saves its position. Then the next run sends the lines before the kill again.
        assert.ok(lines.length <= LINES + kill_at, `killed behind ${kill_at}: ${lines.length} lines`);
        rmSync(base, { recursive: true });
      }
    },
  );
