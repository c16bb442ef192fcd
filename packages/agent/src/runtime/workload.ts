import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import { type Clock, type Timer, exponentialMs } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Logger, LogSink } from "../contract.ts";

import type { Timing } from "./limits.ts";
import { readLines, spawnChild } from "./spawn-child.ts";
import { groupMembers, type ProcessRecord, readProcess, signalGroup, stopGroup } from "./processes.ts";
import { errorText } from "../disk/write-atomically.ts";

interface WorkloadOptions {
  app: string;
  argv: string[];
  directory: string;
  env: Record<string, string>;
  stop_timeout_seconds: number;
  /** Path of the file in which the running process is recorded. The next run of the agent reads it. */
  process_file: string;
  clock: Clock;
  timing: Timing;
  log: Logger;
  logs: LogSink;
  /** Called before each restart. Returns why the program must not be started again; undefined: it may. */
  check?: () => Promise<string | undefined>;
  /** Called when `check` has refused a restart. The workload does not retry. */
  on_refused?: () => void;
}

/**
 * Runs one program in its own process group and writes its output to the log. Restarts the program with backoff when it exits. There are
 * never two copies, since the rest of the group is killed before a restart.
 */
export class Workload {
  /** Number of starts after the first one. */
  restarts = 0;
  /** Describes how the program last exited; null if it never exited. */
  last_exit: string | null = null;
  exits = 0;
  readonly #options: WorkloadOptions;
  #child: ChildProcess | undefined;
  #started_at = 0;
  #restart: Timer | undefined;
  #failures_in_row = 0;
  #stopping = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }

  /** Pid of the program; undefined while it is down. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  get alive(): boolean {
    return this.#child !== undefined;
  }

  start(): void {
    const { argv, directory, env, clock, log, app, process_file } = this.#options;
    const [program, ...args] = argv as [string, ...string[]];
    this.#started_at = clock.monotonic();
    const child = spawnChild(program, args, { cwd: directory, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    this.#ended = new Promise((resolve) => {
      // `error` may occur several times. Without a pid, the program never ran. With a pid, it means that a signal could not be sent, and
      // `exit` will follow.
      child.on("error", (error) => {
        if (child.pid === undefined) void this.#onEnd(child, `could not be started: ${error.message}`).finally(resolve);
      });
      child.once(
        "exit",
        (code, signal) => void this.#onEnd(child, signal === null ? `exited with ${code}` : `ended by ${signal}`).finally(resolve),
      );
    });
    if (child.pid === undefined) return;
    this.#child = child;
    failpoint("workload:spawned", "step");
    const record: ProcessRecord = { pid: child.pid, start_time: readProcess(child.pid)?.start_time ?? null };
    try {
      fs.writeFileSync(process_file, JSON.stringify(record));
    } catch (error) {
      // The next agent also finds the process by its environment.
      log.warn({ app, err: error }, "could not record the workload's process");
    }
    failpoint("workload:recorded", "step");
    this.#readOutput(child);
    log.info({ app, pid: child.pid }, "workload started");
  }

  #readOutput(child: ChildProcess): void {
    const { app, logs } = this.#options;
    const write = (level: "info" | "error") => (message: string, missing: number) =>
      logs.write({ level, source: app, message, ...(missing > 0 ? { fields: { truncated_bytes: missing } } : {}) });
    if (child.stdout) readLines(child.stdout, write("info"));
    if (child.stderr) readLines(child.stderr, write("error"));
  }

  async #onEnd(child: ChildProcess, how: string): Promise<void> {
    const { app, clock, timing, log, logs } = this.#options;
    this.#child = undefined;
    // Kill child processes that outlive the program, since they occupy its ports and files.
    if (child.pid !== undefined && groupMembers(child.pid).length > 0) {
      signalGroup(child.pid, "SIGKILL");
      await stopGroup(child.pid, { clock, grace_ms: 0 });
    }
    if (this.#stopping) return;
    this.exits += 1;
    this.last_exit = how;
    const up_ms = clock.monotonic() - this.#started_at;
    this.#failures_in_row = up_ms >= timing.restart_reset_ms ? 1 : this.#failures_in_row + 1;
    const wait_ms = exponentialMs(timing.restart_first_ms, timing.restart_last_ms, this.#failures_in_row - 1);
    log.warn({ app, how, up_ms: Math.round(up_ms), wait_ms }, "workload exited");
    logs.write({ level: "warn", source: "roamfleet", message: `${app} ${how}; it is started again`, fields: { app, wait_ms } });
    this.#restart = clock.setTimer(wait_ms, () => void this.#startAgain());
  }

  async #startAgain(): Promise<void> {
    const { check, on_refused } = this.#options;
    const refusal = await check?.().catch(errorText);
    if (this.#stopping) return;
    if (refusal !== undefined) {
      this.last_exit = `is not started again: ${refusal}`;
      return on_refused?.();
    }
    this.restarts += 1;
    this.start();
  }

  /** Sends a signal to the program. Returns false if the program is down or cannot be signaled. */
  signal(signal: NodeJS.Signals): boolean {
    return this.#child?.kill(signal) ?? false;
  }

  /** Sends SIGTERM to the whole group, and SIGKILL after the manifest's timeout; resolves when no process of it is left. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#restart?.cancel();
    const { clock, stop_timeout_seconds, log, app, process_file } = this.#options;
    const pid = this.#child?.pid;
    failpoint("workload:before-stop", "step");
    if (pid !== undefined) {
      const ended = await stopGroup(pid, { clock, grace_ms: stop_timeout_seconds * 1_000 });
      if (!ended) log.error({ app, pid }, "workload could not be killed");
      else await this.#ended;
    } else {
      await this.#ended;
    }
    // A process that exited during the stop may have scheduled another restart in #onEnd.
    this.#restart?.cancel();
    failpoint("workload:after-stop", "step");
    fs.rmSync(process_file, { force: true });
  }

  /** Leaves the program running when the agent exits. From then on, this object does not restart it. */
  release(): void {
    this.#stopping = true;
    this.#restart?.cancel();
    this.#child?.stdout?.destroy();
    this.#child?.stderr?.destroy();
    this.#child?.unref();
  }
}
