import { createHash } from "node:crypto";
import fs from "node:fs";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { DesiredConfig } from "@roamfleet/protocol/link";
import type { Clock, Fetcher, Logger, Reporter } from "../contract.ts";
import { explain } from "../deployments/explain.ts";
import type { Journal } from "../deployments/journal.ts";
import { makeDirectory, writeAtomically } from "../disk/write-atomically.ts";
import { failureOf, StepAborted } from "../runtime/failure.ts";
import type { Timing } from "../runtime/limits.ts";
import type { StatePaths } from "../runtime/paths.ts";
import { fetchConfig } from "./fetch.ts";
import { CONFIG_FINISHED_MAX, type ConfigState, emptyConfigState, type FinishedConfig } from "./state.ts";

export interface ConfigWorkerOptions {
  namespace: string;
  journal: Journal<ConfigState>;
  paths: StatePaths;
  clock: Clock;
  timing: Timing;
  log: Logger;
  reporter: Reporter;
  fetcher: Fetcher;
  /** Called after the agent has changed the file; notifies the workloads that ask for it. */
  on_change: (namespace: string) => void;
  on_step: (name: string) => void;
}

type Ending = Pick<FinishedConfig, "status" | "changed"> & { reason?: string; message?: string };

/** Keeps the config file of one namespace in its desired state. */
export class ConfigWorker {
  readonly #options: ConfigWorkerOptions;
  #state: ConfigState;
  #desired: DesiredConfig | undefined;
  #busy: Promise<void> | undefined;
  #abort: AbortController | undefined;
  #stopped = false;
  #reported_sha256: string | undefined;

  constructor(options: ConfigWorkerOptions) {
    this.#options = options;
    this.#state = options.journal.records.get(options.namespace) ?? emptyConfigState(options.namespace);
  }

  start(): void {
    for (const finished of this.#state.finished) if (!finished.reported) this.#reportFinished(finished);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#abort?.abort();
    await this.#busy;
  }

  /** Sets the desired config, and aborts a download for an older one. */
  setDesired(desired: DesiredConfig | undefined): void {
    const before = this.#desired;
    this.#desired = desired;
    const finished = this.#finishedFor(desired);
    if (finished !== undefined) this.#reportFinished(finished);
    if (before?.target_id !== desired?.target_id || before?.sha256 !== desired?.sha256) this.#abort?.abort();
    this.#work();
  }

  announce(): void {
    this.#reported_sha256 = undefined;
    this.checkDrift();
    const last = this.#state.finished.at(-1);
    if (last !== undefined) this.#reportFinished(last);
    // Starts again a download that failed, or that did not start without a link.
    this.#work();
  }

  /** Reports the file's digest if it differs from the last report: the file was changed by hand. */
  checkDrift(): void {
    const { applied } = this.#state;
    if (applied === null) return;
    const sha256 = this.#actual() ?? "";
    if (sha256 === this.#reported_sha256) return;
    this.#reported_sha256 = sha256;
    if (sha256 !== applied.sha256) this.#options.log.warn({ namespace: this.#state.namespace }, "config file was changed by hand");
    try {
      this.#options.reporter.report({ kind: "config", namespace: this.#state.namespace, version: applied.version, sha256 });
    } catch (error) {
      this.#reported_sha256 = undefined;
      this.#options.log.error({ namespace: this.#state.namespace, err: error }, "report could not be kept");
    }
  }

  #actual(): string | undefined {
    try {
      return createHash("sha256")
        .update(fs.readFileSync(this.#options.paths.config(this.#state.namespace)))
        .digest("hex");
    } catch {
      return undefined;
    }
  }

  #finishedFor(desired: DesiredConfig | undefined): FinishedConfig | undefined {
    if (desired === undefined || desired.target_id === null) return undefined;
    return this.#state.finished.findLast((one) => one.target_id === desired.target_id && one.attempt >= desired.attempt);
  }

  #work(): void {
    if (this.#busy !== undefined || this.#stopped || this.#open() === undefined) return;
    this.#busy = this.#run().finally(() => {
      this.#busy = undefined;
      // The desired config may have changed while the worker was busy.
      this.#work();
    });
  }

  async #run(): Promise<void> {
    const { clock, timing, log } = this.#options;
    let failures = 0;
    for (let desired = this.#open(); desired !== undefined && !this.#stopped; desired = this.#open()) {
      this.#abort = new AbortController();
      try {
        await this.#install(desired, this.#abort.signal);
        failures = 0;
      } catch (error) {
        if (error instanceof StepAborted) {
          this.#finishCancelled(desired);
          continue;
        }
        failures += 1;
        const { reason, message } = failureOf(error, "rejected_by_robot");
        log.error({ namespace: this.#state.namespace, reason, err: error }, "config could not be put in place");
        const now = this.#desired ?? desired;
        if (desired.target_id !== null)
          this.#finish(now.target_id === desired.target_id ? now : desired, { status: "failed", changed: false, reason, message });
        else await clock.sleep(Math.min(timing.retry_last_ms, timing.retry_first_ms * 2 ** failures), this.#abort.signal);
      } finally {
        this.#abort = undefined;
      }
    }
  }

  /** Returns the desired config if it is not applied yet. */
  #open(): DesiredConfig | undefined {
    return this.#desired === undefined || this.#isDone(this.#desired) ? undefined : this.#desired;
  }

  #isDone(desired: DesiredConfig): boolean {
    if (desired.target_id !== null) return this.#finishedFor(desired) !== undefined;
    // Without a deployment, a file changed by hand stays as it is and is reported as drift.
    return this.#state.applied?.sha256 === desired.sha256 && this.#state.applied.version === desired.version;
  }

  async #install(desired: DesiredConfig, signal: AbortSignal): Promise<void> {
    const { paths, on_change, on_step } = this.#options;
    const { namespace } = this.#state;
    const file = paths.config(namespace);
    let changed = this.#state.writing_sha256 === desired.sha256;
    if (this.#actual() !== desired.sha256) {
      failpoint("config:before-fetch", "step");
      const bytes = await fetchConfig(namespace, desired.sha256, { ...this.#options, signal });
      changed = true;
      this.#save({ ...this.#state, writing_sha256: desired.sha256 });
      // Workloads run as the agent's user. Other users must not read values that may be secret.
      makeDirectory(paths.configs);
      writeAtomically(file, bytes);
      on_step("config.written");
    }
    const newest = this.#desired?.target_id === desired.target_id ? (this.#desired ?? desired) : desired;
    this.#save({ ...this.#state, applied: { version: desired.version, sha256: desired.sha256 }, writing_sha256: null });
    if (changed) on_change(namespace);
    failpoint("config:told-readers", "step");
    if (desired.target_id !== null) this.#finish(newest, { status: "applied", changed });
    this.#reported_sha256 = undefined;
    this.checkDrift();
  }

  #finishCancelled(desired: DesiredConfig): void {
    if (this.#stopped || desired.target_id === null || this.#desired?.target_id === desired.target_id) return;
    this.#finish(desired, { status: "cancelled", changed: false, message: "cancelled before the file was changed" });
  }

  #finish({ target_id, deployment_id, attempt }: DesiredConfig, { status, changed, reason, message }: Ending): void {
    if (target_id === null || deployment_id === null) return;
    const finished: FinishedConfig = {
      target_id,
      deployment_id,
      attempt,
      status,
      changed,
      reason: reason ?? null,
      message: message ?? null,
      reported: false,
    };
    this.#keep({ ...this.#state, finished: [...this.#state.finished, finished].slice(-CONFIG_FINISHED_MAX) });
    this.#options.on_step("config.finished");
    this.#reportFinished(finished);
  }

  #reportFinished(finished: FinishedConfig): void {
    const { reporter, log } = this.#options;
    const { target_id, deployment_id, attempt, status, changed, reason, message } = finished;
    try {
      const outcome = { status, ...(status === "applied" ? { changed } : {}), ...explain(reason, message) };
      reporter.report({ kind: "target", target_id, deployment_id, attempt, ...outcome });
    } catch (error) {
      log.error({ namespace: this.#state.namespace, err: error }, "report could not be kept");
      return;
    }
    if (!finished.reported)
      this.#keep({ ...this.#state, finished: this.#state.finished.map((one) => (one === finished ? { ...one, reported: true } : one)) });
  }

  #save(state: ConfigState): void {
    this.#options.journal.append(state);
    this.#state = state;
    this.#options.on_step("config.journalled");
  }

  /** Journals a state that may be lost on a full disk: after a restart the config is applied and reported once more. */
  #keep(state: ConfigState): void {
    try {
      this.#save(state);
    } catch (error) {
      this.#options.log.error({ namespace: state.namespace, err: error }, "journal could not be written");
      this.#state = state;
    }
  }
}
