import { createHash } from "node:crypto";
import {
  type Artifact,
  type Executor,
  failureOf,
  type FetchOptions,
  fetchWhole,
  type PartFile,
  type StageIo,
  throwIfAborted,
  TIMING,
  type Verdict,
} from "@roamfleet/agent/parts";
import type { Clock } from "@roamfleet/clock";
import type { DesiredRelease } from "@roamfleet/protocol/link";

/** Release kinds whose installation a robot simulates. */
export const KINDS = ["app_bundle", "file", "container_image"] as const;

export interface RuntimeOptions {
  clock: Clock;
  /** Downloads and verifies an artifact; resolves if its digest is correct. */
  fetch: (artifact: Artifact, io: StageIo) => Promise<void>;
  /** Called when an install starts. */
  staging: (app: string, release: DesiredRelease) => void;
  /** Duration of a step in milliseconds. */
  delay: () => number;
  real_time: boolean;
  /** Whether the verification of the current release fails. */
  isUnwell: (app: string, release: DesiredRelease) => boolean;
  log: (app: string, message: string) => void;
}

/**
 * Creates executors that only record what would run, where an agent unpacks, starts and monitors it. The artifact is real: the agent's own
 * code downloads it and verifies its size and digest. Only the bytes are discarded.
 */
export function simulatedExecutors(options: RuntimeOptions): Executor[] {
  const running = new Map<string, { kind: string; release: DesiredRelease }>();
  return KINDS.map((kind) => new SimulatedExecutor(kind, running, options));
}

class SimulatedExecutor implements Executor {
  readonly kind: string;
  readonly #running: Map<string, { kind: string; release: DesiredRelease }>;
  readonly #options: RuntimeOptions;

  constructor(kind: string, running: Map<string, { kind: string; release: DesiredRelease }>, options: RuntimeOptions) {
    this.kind = kind;
    this.#running = running;
    this.#options = options;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { delay, fetch, staging } = this.#options;
    staging(app, release);
    await this.#spend(delay(), io.signal);
    // Skip the download of a registry image. It has no artifact on the server, and there is no container engine here that could pull it.
    if (release.image === null) await fetch({ sha256: release.artifact_sha256, size: release.artifact_size }, io);
  }

  async start(app: string, release: DesiredRelease): Promise<void> {
    if (this.running(app) === release.id) return;
    await this.#spend(this.#options.delay());
    this.#running.set(app, { kind: this.kind, release });
    this.#options.log(app, `release ${release.tag} started`);
  }

  running(app: string): string | null {
    const found = this.#running.get(app);
    return found?.kind === this.kind ? found.release.id : null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const { delay, real_time, isUnwell } = this.#options;
    await this.#spend(delay() + (real_time ? verify_seconds * 1_000 : 0), signal);
    return isUnwell(app, release)
      ? { healthy: false, reason: "health_check_failed", message: `simulated: release ${release.tag} is unhealthy` }
      : { healthy: true };
  }

  probe(app: string, release: DesiredRelease): Promise<{ ok: boolean; message: string }> {
    const ok = this.running(app) === release.id;
    return Promise.resolve({ ok, message: ok ? "the simulated app is healthy" : "the simulated app is not running" });
  }

  alive(app: string): Promise<{ ok: boolean; message: string }> {
    const ok = this.#running.has(app);
    return Promise.resolve({ ok, message: ok ? "the simulated app is healthy" : "the simulated app is not running" });
  }

  stop(app: string): Promise<void> {
    if (this.running(app) !== null) this.#running.delete(app);
    return Promise.resolve();
  }

  remove(app: string): Promise<void> {
    return this.stop(app);
  }

  status(app: string): { status: "running" | "stopped"; restarts: number } {
    return { status: this.running(app) === null ? "stopped" : "running", restarts: 0 };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #spend(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal);
    if (signal !== undefined) throwIfAborted(signal);
  }
}

/** A file that discards all bytes written to it. */
const NOWHERE: PartFile = {
  write: (_bytes, _offset, length) => Promise.resolve({ bytesWritten: length }),
  truncate: () => Promise.resolve(),
};

/**
 * Downloads and verifies an artifact as the agent does, with range requests after a disconnect. Throws the agent's StepFailure or
 * StepAborted.
 */
export async function fetchAndCheck(artifact: Artifact, options: Omit<FetchOptions, "timing">): Promise<void> {
  try {
    await fetchWhole({ handle: NOWHERE, bytes: 0, hash: createHash("sha256") }, artifact, { ...options, timing: TIMING });
  } catch (error) {
    throwIfAborted(options.signal);
    throw failureOf(error, "download_failed");
  }
}
