import { type Clock, type Timer, exponentialMs } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Logger, LogSink } from "../contract.ts";
import type { HostedProgram, ProgramSpec, WorkloadHost } from "./hosts/workload-host.ts";
import type { Timing } from "./limits.ts";
import { errorText } from "../disk/write-atomically.ts";

interface WorkloadOptions extends Omit<ProgramSpec, "restarts" | "user"> {
  /** Returns the user to start the program as; absent: the agent's. An error counts as an exit of the program. */
  user?: () => Promise<ProgramSpec["user"]>;
  host: WorkloadHost;
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
 * Runs one program, and restarts it with backoff when it exits. There are never two copies, since the host kills the remaining processes of
 * a program before it reports that the program has ended.
 */
export class Workload {
  /** Number of starts after the first one. */
  restarts = 0;
  /** Describes how the program last exited; null if it never exited. */
  last_exit: string | null = null;
  exits = 0;
  readonly #options: WorkloadOptions;
  #program: HostedProgram | undefined;
  #started_at = 0;
  #restart: Timer | undefined;
  #failures_in_row = 0;
  #stopping = false;
  #starting: Promise<void> = Promise.resolve();
  #ended: Promise<void> = Promise.resolve();

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }

  /** Pid of the program; undefined while it is down. */
  get pid(): number | undefined {
    return this.#program?.pid;
  }

  get alive(): boolean {
    return this.#program !== undefined;
  }

  /** Starts the program. Never rejects: a program that cannot be started counts as one that exited, and is tried again. */
  start(): Promise<void> {
    return (this.#starting = this.#start());
  }

  async #start(): Promise<void> {
    const { host, clock } = this.#options;
    this.#started_at = clock.monotonic();
    try {
      const user = await this.#options.user?.();
      this.#watch(await host.start({ ...this.#options, user, restarts: this.restarts }));
    } catch (error) {
      this.#onEnd(errorText(error));
    }
  }

  /** Supervises a program that an earlier agent started. */
  adopt(program: HostedProgram, restarts: number): void {
    this.restarts = restarts;
    this.#started_at = this.#options.clock.monotonic();
    this.#watch(program);
  }

  #watch(program: HostedProgram): void {
    this.#program = program;
    this.#ended = program.ended.then((how) => this.#onEnd(how));
  }

  #onEnd(how: string): void {
    const { app, clock, timing, log, logs } = this.#options;
    this.#program = undefined;
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
    await this.start();
  }

  /** Sends a signal to the program. Returns false if the program is down or cannot be signaled. */
  signal(signal: NodeJS.Signals): boolean {
    return this.#program?.signal(signal) ?? false;
  }

  /** Stops the program and its child processes. Resolves when all have ended and their output is in the log. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#restart?.cancel();
    const { stop_timeout_seconds, log, app } = this.#options;
    failpoint("workload:before-stop", "step");
    await this.#starting;
    const program = this.#program;
    if (program !== undefined && !(await program.stop(stop_timeout_seconds * 1_000)))
      log.error({ app, pid: program.pid }, "workload could not be killed");
    else await this.#ended;
    // A program that exited during the stop may have scheduled another restart in #onEnd.
    this.#restart?.cancel();
    failpoint("workload:after-stop", "step");
  }

  /** Leaves the program running when the agent exits. From then on, this object does not restart it. */
  async release(): Promise<void> {
    this.#stopping = true;
    this.#restart?.cancel();
    await this.#starting;
    await this.#program?.detach();
  }
}
