import fs from "node:fs";
import path from "node:path";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { type Clock, type Timer, timeLimit } from "@roamfleet/clock";
import type { AgentConfig, AppPlace, Logger, OutputSink } from "../contract.ts";
import type { ArtifactStore } from "./artifact-store.ts";
import { switchSymlink, errorText } from "../disk/write-atomically.ts";
import { type Executor, inheritedByWorkloads, type RunStatus, type StageIo, type StartOptions } from "./executor.ts";
import { probe, type ProbeResult, type Verdict, verifyWorkload } from "./health-check.ts";
import { failureOf, StepFailure, throwIfAborted, StepAborted } from "./failure.ts";
import { DetachedHost } from "./hosts/detached-host.ts";
import { Scopes } from "./hosts/scope.ts";
import type { WorkloadHost } from "./hosts/workload-host.ts";
import type { Timing } from "./limits.ts";
import { type BundleManifest, readBundleManifest } from "./manifest.ts";
import type { StatePaths } from "./paths.ts";
import { checkTree, damagedEntry, isStaged, recordTree, stageVersion, recoverVersion } from "./staged-versions.ts";
import { findUser, type RunAs } from "./users.ts";
import { Workload } from "./workload.ts";
import { findWorkloadUser, openStateTo } from "./workload-user.ts";

/** Maximum wait for the new download of a damaged release; after that, the release is started as it is. */
const REPAIR_MS_MAX = 60_000;

export interface RuntimeOptions {
  paths: StatePaths;
  artifacts: ArtifactStore;
  config: AgentConfig;
  clock: Clock;
  timing: Timing;
  log: Logger;
  logs: OutputSink;
  /** Called between any two side effects with the name of that point, so that tests can crash there. */
  on_step: (name: string) => void;
  /** Returns true while only signed releases may run. Then the files of a release are verified before each start. */
  requires_signature: () => boolean;
  /** Called when a workload has disappeared unexpectedly, so that the worker of its app checks it. */
  on_lost: (app: string) => void;
}

interface Running {
  release: DesiredRelease;
  directory: string;
  manifest: BundleManifest;
  env: Record<string, string>;
  workload: Workload;
  health_timer: Timer | undefined;
  healthy: boolean;
}

const NAMES_LOGGED = 20;
/** Time limit for a repeated download; a partial file is kept for the next attempt. */
const FETCH_AGAIN_MS = 120_000;

/**
 * Installs and runs releases of kind `app_bundle`: tar.gz files with a program. Each is unpacked into a separate directory, and its program
 * runs under supervision.
 */
export class BundleExecutor implements Executor {
  readonly kind = "app_bundle";
  readonly #options: RuntimeOptions;
  readonly #host: WorkloadHost;
  readonly #running = new Map<string, Running>();

  constructor(options: RuntimeOptions) {
    this.#options = options;
    const scopes = options.config.is_service === true ? Scopes.find(options.clock) : undefined;
    this.#host = new DetachedHost({ ...options, sink: options.logs, memory_directory: options.config.runtime_directory, scopes });
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { paths } = this.#options;
    // Check the user now, so that a missing user fails the update before the running program is stopped.
    await this.#user();
    if (isStaged(paths, app, release.id) && !(await this.#isDamaged(app, release, "whole"))) return;
    await this.#fetch(app, release, io);
  }

  /** Downloads and unpacks a release into a separate directory, which then replaces an existing version of that release. */
  async #fetch(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { paths, artifacts, on_step } = this.#options;
    await artifacts.with(release, io, (archive) =>
      stageVersion(paths, app, release.id, async (directory) => {
        on_step("bundle.downloaded");
        // Import the module only when it is needed: most of the time a robot only supervises its workloads.
        const { unpackBounds, unpackBundle } = await import("./unpack.ts");
        await unpackBundle(archive, directory, unpackBounds(release.artifact_size), io.signal);
        on_step("bundle.unpacked");
        readBundleManifest(directory);
        await recordTree(paths, app, release, directory);
      }),
    );
  }

  async #isDamaged(app: string, release: DesiredRelease, depth: "quick" | "whole"): Promise<boolean> {
    const { paths, log } = this.#options;
    const file = await damagedEntry(paths, app, release, depth);
    if (file !== undefined) log.warn({ app, release: release.tag, file }, "a staged release is damaged; downloading it again");
    return file !== undefined;
  }

  async repair(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void> {
    const { paths, clock, log } = this.#options;
    if (this.#running.has(app)) return;
    recoverVersion(paths, app, release.id);
    if (!(await this.#isDamaged(app, release, "quick"))) return;
    using limit = timeLimit(clock, REPAIR_MS_MAX, new StepAborted(), signal);
    try {
      await this.stage(app, release, { signal: limit.signal, progress: () => {} });
    } catch (error) {
      throwIfAborted(signal);
      log.warn({ app, release: release.tag, err: error }, "the damaged release could not be downloaded again; starting it anyway");
    }
  }

  /**
   * Downloads a release again whose staged files must not be started. On failure throws StepFailure and keeps the files for the next
   * attempt.
   */
  async #replace(app: string, release: DesiredRelease, problem: string, signal: AbortSignal): Promise<void> {
    const late = new StepFailure("download_failed", `the download did not finish within ${FETCH_AGAIN_MS / 1_000} s`);
    using limit = timeLimit(this.#options.clock, FETCH_AGAIN_MS, late, signal);
    try {
      await this.#fetch(app, release, { signal: limit.signal, progress: () => {} });
    } catch (error) {
      throwIfAborted(signal);
      throw new StepFailure(
        "digest_mismatch",
        `${release.tag} was not started: ${problem}; and it could not be downloaded: ${errorText(error)}`,
      );
    }
  }

  /** Returns why the staged release must not be started; undefined if it may be. Also logs the reason for the users of the app. */
  async #problem(app: string, release: DesiredRelease): Promise<string | undefined> {
    const { paths, log, logs, requires_signature } = this.#options;
    if (!requires_signature()) return undefined;
    const problem = await checkTree(paths, app, release, (names) =>
      log.warn({ app, names: names.slice(0, NAMES_LOGGED), count: names.length }, "deleted files that are not part of the signed release"),
    );
    if (problem !== undefined) {
      log.error({ app, release: release.tag, problem }, "a signed release was changed on disk; downloading it again before its start");
      const message = `${app} is not started: ${problem} (release ${release.tag}); downloading the release again`;
      logs.write({ level: "error", source: "roamfleet", message, fields: { app, release: release.tag } });
    }
    return problem;
  }

  async start(app: string, release: DesiredRelease, { fresh, signal }: StartOptions): Promise<void> {
    const { paths, on_step } = this.#options;
    if (!fresh && this.#running.get(app)?.release.id === release.id) return;
    // Complete an interrupted replacement first, so that the check reads the files that will be started.
    const directory = recoverVersion(paths, app, release.id);
    const problem = await this.#problem(app, release);
    // Stop before the download, so that a bad release stops even if the previous one cannot be downloaded.
    await this.stop(app);
    const adopted = fresh || problem !== undefined ? undefined : await this.#host.adopt(app, release.id);
    // Stop any program that was not adopted: one of another release, or of changed files. `clear` uses the stop timeout with which that
    // program was started.
    if (adopted === undefined) await this.#host.clear(app);
    if (problem !== undefined) await this.#replace(app, release, problem, signal);
    const manifest = readBundleManifest(directory);
    on_step("bundle.stopped");
    try {
      switchSymlink(paths.current(app), path.relative(paths.app(app), directory));
    } catch (error) {
      await adopted?.program.detach();
      throw failureOf(error, "rejected_by_robot");
    }
    on_step("bundle.switched");
    const env = await this.#environment(app, release, manifest);
    const workload = this.#workload(app, release, { directory, manifest, env });
    this.#running.set(app, { release, directory, manifest, env, workload, health_timer: undefined, healthy: true });
    if (adopted === undefined) await workload.start();
    else workload.adopt(adopted.program, adopted.restarts);
    on_step("bundle.started");
  }

  /** Returns the user that programs run as; undefined: the agent's. Throws StepFailure if this robot has no such user. */
  async #user(): Promise<RunAs | undefined> {
    const { workload_user } = this.#options.config;
    return workload_user === undefined ? undefined : findWorkloadUser(workload_user);
  }

  /** Look up the user before each start, since the user may be changed while the agent runs. */
  async #userOf(app: string): Promise<RunAs | undefined> {
    const user = await this.#user();
    if (user !== undefined) openStateTo(user, this.#options.paths, app);
    return user;
  }

  #workload(app: string, release: DesiredRelease, { manifest, ...running }: Pick<Running, "directory" | "manifest" | "env">): Workload {
    return new Workload({
      ...this.#options,
      host: this.#host,
      app,
      release_id: release.id,
      ...running,
      argv: manifest.start,
      stop_timeout_seconds: manifest.stop_timeout_seconds,
      limits: manifest.limits,
      user: () => this.#userOf(app),
      check: () => this.#problem(app, release),
      on_refused: () => {
        this.#running.get(app)?.health_timer?.cancel();
        this.#running.delete(app);
        this.#options.on_lost(app);
      },
    });
  }

  async #environment(app: string, release: DesiredRelease, manifest: BundleManifest): Promise<Record<string, string>> {
    const { config, paths } = this.#options;
    const user = config.workload_user === undefined ? undefined : await findUser(config.workload_user);
    const inherited = inheritedByWorkloads(config.workload_environment);
    const search = [inherited["PATH"] ?? "/usr/local/bin:/usr/bin:/bin", path.dirname(process.execPath)].join(":");
    return {
      ...inherited,
      // The directory of the agent's own Node is last on the PATH, so a Node that is installed on the robot takes precedence.
      PATH: search,
      ...(user && { HOME: user.home, USER: user.name, LOGNAME: user.name }),
      ...manifest.env,
      ROAMFLEET_CONFIG_DIR: paths.configs,
      ROAMFLEET_APP: app,
      ROAMFLEET_RELEASE: release.tag,
      ...(config.local_api === undefined ? {} : { ROAMFLEET_SOCKET: config.local_api.socket }),
    };
  }

  running(app: string): string | null {
    return this.#running.get(app)?.release.id ?? null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const running = this.#running.get(app);
    if (running?.release.id !== release.id) throw new StepFailure("rejected_by_robot", `release ${release.tag} was not started`);
    const { clock, timing } = this.#options;
    const check = running.manifest.health === null ? undefined : () => this.#probe(running);
    return verifyWorkload({ workload: running.workload, probe: check, verify_seconds, clock, timing, signal });
  }

  async #probe({ manifest, workload, directory, env }: Running): Promise<ProbeResult> {
    const { clock, timing } = this.#options;
    if (!workload.alive) return { ok: false, message: `the program ${workload.last_exit ?? "is not running"}` };
    if (manifest.health === null) return { ok: true, message: "running" };
    const user = (): Promise<RunAs | undefined> => this.#user();
    return probe(manifest.health, { directory, env, user, timeout_ms: timing.probe_timeout_ms, clock });
  }

  async probe(app: string, release: DesiredRelease): Promise<ProbeResult> {
    const running = this.#running.get(app);
    if (running?.release.id !== release.id) return { ok: false, message: "not running" };
    return this.#probe(running);
  }

  async alive(app: string, signal: AbortSignal): Promise<ProbeResult> {
    const { clock, timing } = this.#options;
    const workload = this.#running.get(app)?.workload;
    const pid = workload?.pid;
    await clock.sleep(timing.rollback_alive_ms, signal);
    throwIfAborted(signal);
    if (workload?.pid !== undefined && workload.pid === pid) return { ok: true, message: "running" };
    return { ok: false, message: `the program ${workload?.last_exit ?? "is not running"}` };
  }

  settle(app: string): void {
    const { clock, timing, log } = this.#options;
    const running = this.#running.get(app);
    if (running === undefined || running.manifest.health === null) return;
    running.health_timer?.cancel();
    running.health_timer = clock.every(timing.probe_idle_interval_ms, async () => {
      const { ok, message } = await this.#probe(running);
      if (ok !== running.healthy) log.warn({ app, healthy: ok, probe: message }, "workload health changed");
      running.healthy = ok;
    });
  }

  async stop(app: string): Promise<void> {
    const running = this.#running.get(app);
    if (running === undefined) return;
    this.#running.delete(app);
    running.health_timer?.cancel();
    await running.workload.stop();
  }

  async remove(app: string): Promise<void> {
    const { paths, on_step } = this.#options;
    await this.stop(app);
    on_step("bundle.removing");
    await this.#host.clear(app, 0);
    fs.rmSync(paths.app(app), { recursive: true, force: true });
  }

  place(app: string): AppPlace | undefined {
    const running = this.#running.get(app);
    return running === undefined ? undefined : { directory: running.directory, env: running.env };
  }

  metrics_url(app: string): string | undefined {
    const metrics = this.#running.get(app)?.manifest.metrics;
    return metrics ? `http://127.0.0.1:${metrics.port}${metrics.path}` : undefined;
  }

  status(app: string): RunStatus {
    const running = this.#running.get(app);
    if (running === undefined) return { status: "stopped", restarts: 0 };
    const { alive, restarts } = running.workload;
    if (!alive) return { status: "restarting", restarts };
    return { status: running.healthy ? "running" : "unhealthy", restarts };
  }

  reload(app: string): void {
    const running = this.#running.get(app);
    if (running?.manifest.reload) running.workload.signal(running.manifest.reload.signal);
  }

  signal(app: string, signal: NodeJS.Signals): boolean {
    return this.#running.get(app)?.workload.signal(signal) ?? false;
  }

  async close(keep_workloads: boolean): Promise<void> {
    if (!keep_workloads) {
      await Promise.all([...this.#running.keys()].map((app) => this.stop(app)));
      return;
    }
    const running = [...this.#running.values()];
    this.#running.clear();
    for (const { health_timer } of running) health_timer?.cancel();
    await Promise.all(running.map(({ workload }) => workload.release()));
  }
}
