import fs from "node:fs";
import { type Timer, exponentialMs } from "@roamfleet/clock";
import type { DesiredConfig } from "@roamfleet/protocol/link";
import { failpoint } from "@roamfleet/clock/failpoint";
import { hash } from "node:crypto";
import type { Journal } from "../deployments/journal.ts";
import type { Clock, Fetcher, Logger, Reporter } from "../contract.ts";
import { explain } from "../deployments/state.ts";
import { makeDirectory, writeAtomically, errorText } from "../disk/write-atomically.ts";
import { failureOf, StepAborted, StepFailure, throwIfAborted } from "../runtime/failure.ts";
import { CONFIG_BYTES_MAX, type Timing } from "../runtime/limits.ts";
import type { StatePaths } from "../runtime/paths.ts";
import { fetchSmall, RetryLater, retryWaitMs } from "../runtime/download.ts";

/** Stores the config files. A simulated robot keeps only their digests, in memory. */
export interface ConfigFiles {
  /** Returns the SHA-256 of a file; undefined if it cannot be read. */
  digest(namespace: string): string | undefined;
  /** Replaces a file atomically and durably. */
  write(namespace: string, bytes: Buffer): void;
}

/** Stores each config file at `<state>/configs/<namespace>.json`, with these permissions: values may be secret. */
export const configFiles = (paths: StatePaths, mode: number): ConfigFiles => ({
  digest: (namespace) => {
    try {
      return hash("sha256", fs.readFileSync(paths.config(namespace)));
    } catch {
      return undefined;
    }
  },
  write: (namespace, bytes) => {
    makeDirectory(paths.configs);
    writeAtomically(paths.config(namespace), bytes, mode);
  },
});

/** Keeps the robot's config files in their desired state. */
export class Configs {
  readonly #options: ConfigsOptions;
  readonly #workers = new Map<string, ConfigWorker>();
  #drift: Timer | undefined;

  constructor(options: ConfigsOptions) {
    this.#options = options;
    for (const namespace of options.journal.records.keys()) this.#worker(namespace);
  }

  #worker(namespace: string): ConfigWorker {
    let worker = this.#workers.get(namespace);
    if (worker === undefined) {
      worker = new ConfigWorker(namespace, this.#options);
      this.#workers.set(namespace, worker);
    }
    return worker;
  }

  desired(configs: Record<string, DesiredConfig>): void {
    for (const namespace of Object.keys(configs)) this.#worker(namespace);
    for (const [namespace, worker] of this.#workers) worker.setDesired(Object.hasOwn(configs, namespace) ? configs[namespace] : undefined);
  }

  announce(): void {
    for (const worker of this.#workers.values()) worker.announce();
  }

  start(): void {
    for (const worker of this.#workers.values()) worker.start();
    this.#drift = this.#options.clock.every(this.#options.timing.drift_interval_ms, () => {
      for (const worker of this.#workers.values()) worker.checkDrift();
    });
  }

  async stop(): Promise<void> {
    this.#drift?.cancel();
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop()));
  }
}

interface ConfigsOptions {
  journal: Pick<Journal<ConfigState>, "records" | "append">;
  files: ConfigFiles;
  clock: Clock;
  timing: Timing;
  log: Logger;
  reporter: Reporter;
  fetcher: Fetcher;
  /** Called after the agent has changed the file; notifies the workloads whose manifests request that. */
  on_change: (namespace: string) => void;
  on_step: (name: string) => void;
}

type Ending = Pick<FinishedConfig, "status" | "changed"> & { reason?: string; message?: string };

/** Keeps the config file of one namespace in its desired state. */
class ConfigWorker {
  readonly #options: ConfigsOptions;
  #state: ConfigState;
  #desired: DesiredConfig | undefined;
  #busy: Promise<void> | undefined;
  #abort: AbortController | undefined;
  #stopped = false;
  #reported_sha256: string | undefined;

  constructor(namespace: string, options: ConfigsOptions) {
    this.#options = options;
    this.#state = options.journal.records.get(namespace) ?? { namespace, applied: null, writing_sha256: null, finished: [] };
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
    // Retry a download that failed, or one that could not start because the link was down.
    this.#work();
  }

  /** Reports the file's digest if it differs from the last reported one, for example after the file was changed by hand. */
  checkDrift(): void {
    const { applied } = this.#state;
    if (applied === null) return;
    const sha256 = this.#options.files.digest(this.#state.namespace) ?? "";
    if (sha256 === this.#reported_sha256) return;
    this.#reported_sha256 = sha256;
    if (sha256 !== applied.sha256) this.#options.log.warn({ namespace: this.#state.namespace }, "config file was changed by hand");
    try {
      this.#options.reporter.report({ kind: "config", namespace: this.#state.namespace, version: applied.version, sha256 });
    } catch (error) {
      this.#reported_sha256 = undefined;
      this.#options.log.error({ namespace: this.#state.namespace, err: error }, "could not store a report");
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
      // The desired config may have changed while the worker was busy, so check for more work.
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
        log.error({ namespace: this.#state.namespace, reason, err: error }, "could not write a config file");
        const now = this.#desired ?? desired;
        if (desired.target_id !== null)
          this.#finish(now.target_id === desired.target_id ? now : desired, { status: "failed", changed: false, reason, message });
        else await clock.sleep(exponentialMs(timing.retry_first_ms, timing.retry_last_ms, failures), this.#abort.signal);
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
    // Without a deployment, leave a file that was changed by hand as it is. The robot reports the change as drift.
    return this.#state.applied?.sha256 === desired.sha256 && this.#state.applied.version === desired.version;
  }

  async #install(desired: DesiredConfig, signal: AbortSignal): Promise<void> {
    const { files, on_change, on_step } = this.#options;
    const { namespace } = this.#state;
    let changed = this.#state.writing_sha256 === desired.sha256;
    if (files.digest(namespace) !== desired.sha256) {
      failpoint("config:before-fetch", "step");
      const bytes = await fetchConfig(namespace, desired.sha256, { ...this.#options, signal });
      changed = true;
      this.#save({ ...this.#state, writing_sha256: desired.sha256 });
      files.write(namespace, bytes);
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
      log.error({ namespace: this.#state.namespace, err: error }, "could not store a report");
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

  /**
   * Writes a state to the journal. On a full disk the state may be lost; then the config is applied and reported again after a restart.
   */
  #keep(state: ConfigState): void {
    try {
      this.#save(state);
    } catch (error) {
      this.#options.log.error({ namespace: state.namespace, err: error }, "journal could not be written");
      this.#state = state;
    }
  }
}

interface FinishedConfig {
  target_id: string;
  deployment_id: string;
  attempt: number;
  status: "applied" | "failed" | "cancelled";
  reason: string | null;
  message: string | null;
  changed: boolean;
  reported: boolean;
}

export interface ConfigState {
  namespace: string;
  /** The last written version; the file may have been changed by hand since. null: nothing written yet. */
  applied: { version: number; sha256: string } | null;
  /**
   * Digest of the new file, journaled before the file is written. After a crash, the digest shows that the agent itself changed the file.
   */
  writing_sha256: string | null;
  finished: FinishedConfig[];
}

const CONFIG_FINISHED_MAX = 4;

interface FetchConfigOptions {
  fetcher: Fetcher;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
}

/**
 * Downloads the effective config of a namespace. Retries until the content has this SHA-256, since the server may already return a newer
 * version than the one in the desired state. Attempts without a response, and responses that ask for a later retry, are not limited. After
 * `download_tries` other responses it throws StepFailure (`download_failed`, `digest_mismatch`). Throws StepAborted on abort.
 */
async function fetchConfig(namespace: string, sha256: string, options: FetchConfigOptions): Promise<Buffer> {
  const { fetcher, clock, timing, signal } = options;
  for (let [tries, answers] = [1, 0]; ; tries += 1) {
    throwIfAborted(signal);
    let failure: StepFailure;
    let asked_wait_ms = 0;
    try {
      const bytes = await fetchSmall(`/agent/configs/${encodeURIComponent(namespace)}`, {
        fetcher,
        clock,
        signal,
        within_ms: timing.download_stall_ms,
        bytes_max: CONFIG_BYTES_MAX,
        on_answer: () => (answers += 1),
      });
      if (hash("sha256", bytes) === sha256) return bytes;
      failure = new StepFailure("digest_mismatch", `the downloaded config does not have the SHA-256 ${sha256}`);
    } catch (error) {
      if (error instanceof RetryLater) asked_wait_ms = error.wait_ms;
      failure = new StepFailure("download_failed", `the config could not be downloaded: ${errorText(error)}`);
    }
    throwIfAborted(signal);
    if (answers >= timing.download_tries) throw failure;
    await clock.sleep(retryWaitMs(clock, timing, tries - 1, asked_wait_ms), signal);
  }
}
