import { type Executor, type StageIo, throwIfAborted, type Verdict } from "@roamfleet/agent/parts";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { RuntimeOptions } from "./runtime.ts";

/** Time in which a real launcher waits for the first report of a new version. */
const TRIAL_MS = 60_000;

export interface SimulatedAgentOptions extends Omit<RuntimeOptions, "log"> {
  /** Called when the agent would restart as another version: its link breaks and connects again. */
  restarted: () => void;
}

interface AgentManifest {
  version?: string;
  /** How the version fails on simulated robots. Real agents ignore this field. */
  simulate?: "crash_loop" | "no_report";
}

/**
 * Simulates the upgrade of a robot's agent: the robot reports the release's version and connects again, as after a restart. The field
 * `simulate` of the manifest makes the version fail, and the robot returns to its previous one.
 */
export class SimulatedAgentExecutor implements Executor {
  readonly kind = "agent";
  readonly #options: SimulatedAgentOptions;
  #running: { app: string; release: DesiredRelease } | undefined;
  /** The version before the latest fresh start. */
  #before: string | undefined;
  #version: string | undefined;

  constructor(options: SimulatedAgentOptions) {
    this.#options = options;
  }

  /** The version that a release has installed; undefined before the first one. */
  get version(): string | undefined {
    return this.#version;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { delay, fetch, staging } = this.#options;
    staging(app, release);
    await this.#spend(delay(), io.signal);
    await fetch({ sha256: release.artifact_sha256, size: release.artifact_size }, io);
  }

  async start(app: string, release: DesiredRelease): Promise<void> {
    if (this.running(app) === release.id) return;
    this.#running = { app, release };
    this.#before = this.#version;
    await this.#become(manifestOf(release).version);
  }

  running(app: string): string | null {
    return this.#running?.app === app ? this.#running.release.id : null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const { delay, real_time, isUnwell } = this.#options;
    const { version, simulate } = manifestOf(release);
    if (simulate === "crash_loop")
      return { healthy: false, reason: "crash_loop", message: `simulated: agent ${version} ended before it was confirmed` };
    if (simulate === "no_report") {
      await this.#spend(real_time ? TRIAL_MS : delay(), signal);
      return { healthy: false, reason: "health_check_failed", message: `simulated: agent ${version} did not report to the server` };
    }
    await this.#spend(delay() + (real_time ? verify_seconds * 1_000 : 0), signal);
    return isUnwell(app, release)
      ? { healthy: false, reason: "health_check_failed", message: `simulated: agent ${version} is unhealthy` }
      : { healthy: true };
  }

  async probe(app: string, release: DesiredRelease): Promise<{ ok: boolean; message: string }> {
    return { ok: this.running(app) === release.id, message: "the simulated agent runs" };
  }

  async alive(): Promise<{ ok: boolean; message: string }> {
    return { ok: true, message: "the simulated agent runs" };
  }

  async restore(): Promise<{ ok: boolean; message: string }> {
    this.#running = undefined;
    await this.#become(this.#before);
    return this.alive();
  }

  async stop(): Promise<void> {}

  async remove(): Promise<void> {
    this.#running = undefined;
    await this.#become(undefined);
  }

  status(app: string): { status: "running" | "stopped"; restarts: number } {
    return { status: this.running(app) === null ? "stopped" : "running", restarts: 0 };
  }

  async close(): Promise<void> {}

  async #become(version: string | undefined): Promise<void> {
    if (version === this.#version) return;
    await this.#spend(this.#options.delay());
    this.#version = version;
    this.#options.restarted();
  }

  async #spend(ms: number, signal?: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal);
    if (signal !== undefined) throwIfAborted(signal);
  }
}

const manifestOf = ({ manifest }: DesiredRelease): AgentManifest => manifest ?? {};
