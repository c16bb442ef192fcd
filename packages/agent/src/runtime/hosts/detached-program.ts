import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../../disk/write-atomically.ts";
import { groupMembers, signalGroup, stopGroup, waitUntil } from "../processes.ts";
import type { OutputReader } from "./output-reader.ts";
import { findProcess, type ProcessRecord } from "./process-record.ts";
import { describeStatus, type ExitStatus, type HostedProgram, parseStatus } from "./workload-host.ts";

/** Delay between a change of the output files and reading them, so that many changes are read in one batch. */
const READ_AFTER_MS = 50;
/** Interval of reads while the log has no room, or if the system does not report changes of files. */
const READ_EVERY_MS = 500;
/** Interval at which the process of an adopted program is checked. */
const CHECK_EVERY_MS = 500;
/**
 * Maximum wait for the wrapper to copy the last output. The wrapper takes longer only if a process outside the program's group still
 * writes.
 */
const DRAIN_MS = 2_000;

interface DetachedOptions {
  app: string;
  record: ProcessRecord;
  directory: string;
  reader: OutputReader;
  clock: Clock;
  log: Logger;
  /** The wrapper, if this agent started it. */
  wrapper?: ChildProcess;
  /** Called once the program was stopped, to delete its record. */
  on_stopped: () => void;
}

/** A program in a separate session, with a wrapper that copies its output to files. Reads these files into the log. */
export class DetachedProgram implements HostedProgram {
  readonly pid: number;
  readonly ended: Promise<string>;
  readonly #options: DetachedOptions;
  #resolve!: (how: string) => void;
  #watcher: fs.FSWatcher | undefined;
  #timers: Timer[] = [];
  #next_read: Timer | undefined;
  #reading: Promise<unknown> = Promise.resolve();
  #ending = false;
  #detached = false;

  constructor(options: DetachedOptions) {
    this.#options = options;
    this.pid = options.record.pid;
    this.ended = new Promise((resolve) => (this.#resolve = resolve));
    this.#watchOutput();
    if (options.wrapper === undefined) this.#watchProcess();
    // The pid was just read from the wrapper's stdout, so the wrapper cannot have emitted `close` yet.
    else options.wrapper.once("close", () => this.#watchProcess());
    this.#readSoon();
  }

  /** Called when the wrapper has reported the program's exit status. */
  exited(status: ExitStatus): void {
    void this.#end(status);
  }

  #watchOutput(): void {
    const { directory, clock } = this.#options;
    const poll = (): void => void this.#timers.push(clock.every(READ_EVERY_MS, () => this.#readSoon()));
    try {
      this.#watcher = fs.watch(directory, { persistent: false }, () => this.#readSoon());
      this.#watcher.on("error", poll);
    } catch {
      // The limit of watches on this system is reached, or the directory is missing because the disk is full.
      poll();
    }
  }

  /** Checks from now on whether the program still runs, since no wrapper of this agent reports its exit. */
  #watchProcess(): void {
    if (this.#detached || this.#ending) return;
    const { clock, record } = this.#options;
    const check = (): void => {
      if (findProcess(record) === undefined) void this.#end(storedStatus(this.#options.directory));
    };
    this.#timers.push(clock.every(CHECK_EVERY_MS, check));
    check();
  }

  #readSoon(after_ms = READ_AFTER_MS): void {
    if (this.#detached || this.#ending) return;
    this.#next_read ??= this.#options.clock.setTimer(after_ms, () => {
      this.#next_read = undefined;
      void this.#inTurn(async () => {
        if (!(await this.#options.reader.read())) this.#readSoon(READ_EVERY_MS);
      });
    });
  }

  /** Runs `work` after all earlier reads of the output. Never rejects. */
  #inTurn(work: () => Promise<void>): Promise<unknown> {
    const { app, log } = this.#options;
    this.#reading = this.#reading
      .then(work)
      .catch((error: unknown) => log.warn({ app, reason: errorText(error) }, "output could not be read"));
    return this.#reading;
  }

  async #end(status: ExitStatus | undefined): Promise<void> {
    if (this.#ending || this.#detached) return;
    this.#ending = true;
    this.#unwatch();
    const { clock, record, reader } = this.#options;
    // Kill child processes that outlive the program, since they occupy its ports and files.
    if (groupMembers(this.pid).length > 0) {
      signalGroup(this.pid, "SIGKILL");
      await stopGroup(this.pid, { clock, grace_ms: 0 });
    }
    if (!(await waitUntil(clock, DRAIN_MS, () => findProcess(record.wrapper) === undefined))) signalGroup(record.wrapper.pid, "SIGKILL");
    const how = describeStatus(status ?? storedStatus(this.#options.directory));
    await this.#inTurn(() => reader.finish());
    this.#resolve(how);
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#next_read?.cancel();
    for (const timer of this.#timers.splice(0)) timer.cancel();
  }

  signal(signal: NodeJS.Signals): boolean {
    if (findProcess(this.#options.record) === undefined) return false;
    try {
      return process.kill(this.pid, signal);
    } catch {
      return false;
    }
  }

  async stop(grace_ms: number): Promise<boolean> {
    const ended = await stopGroup(this.pid, { clock: this.#options.clock, grace_ms });
    if (!ended) return false;
    void this.#end(undefined);
    await this.ended;
    this.#options.on_stopped();
    return true;
  }

  async detach(): Promise<void> {
    if (this.#ending) return void (await this.ended);
    this.#detached = true;
    this.#unwatch();
    const { reader, wrapper } = this.#options;
    await this.#inTurn(async () => void (await reader.read()));
    reader.close();
    wrapper?.stdout?.destroy();
    wrapper?.stderr?.destroy();
    wrapper?.unref();
  }
}

/** Returns the exit status that the wrapper of a run has stored; undefined if there is none. */
export function storedStatus(directory: string): ExitStatus | undefined {
  try {
    return parseStatus(fs.readFileSync(path.join(directory, "exit"), "utf8"));
  } catch {
    return undefined;
  }
}
