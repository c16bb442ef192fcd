import type { Clock } from "@roamfleet/clock";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { Logger, WorkloadStatus } from "../contract.ts";
import type { AgentConfig } from "../config.ts";
import { errorText } from "../disk/write-atomically.ts";
import { readBootId } from "../identity/identity.ts";
import type { ArtifactStore } from "../runtime/artifact-store.ts";
import type { Executor, RunStatus, StageIo, StartOptions } from "../runtime/executor.ts";
import { StepFailure, throwIfAborted } from "../runtime/failure.ts";
import type { ProbeResult, Verdict } from "../runtime/health-check.ts";
import type { Timing } from "../runtime/limits.ts";
import type { StatePaths } from "../runtime/paths.ts";
import { HookBackend, type ImageBackend, type SlotStatus } from "./backend.ts";
import { type ImageChange, ImageRecordFile } from "./image-record.ts";
import { findRauc, RaucBackend } from "./rauc.ts";
import { checkStateDirectory } from "./state-directory.ts";

export interface OsImageOptions {
  paths: StatePaths;
  config: AgentConfig;
  artifacts: ArtifactStore;
  clock: Clock;
  timing: Timing;
  log: Logger;
  on_step: (name: string) => void;
  /** Returns whether the agent is connected to its server. */
  connected: () => boolean;
  workloads: () => WorkloadStatus[];
  /** Checks the health of an app's running release once; undefined if none runs. */
  probe_app: (app: string) => Promise<ProbeResult | undefined>;
}

/** Interval of progress messages while an image is written. They extend the server's deadline, which is 600 s. */
const PROGRESS_MS = 30_000;
/** Maximum time from the request of a reboot to the end of this process. */
const REBOOT_MS = 180_000;

type Slots = Required<SlotStatus>;

/**
 * Installs releases of kind `os_image`: system images for robots with two slots, of which one runs. An image is written to the other slot
 * while the robot works, and started by a reboot. Once the new system is healthy, the image is confirmed. Until then the bootloader falls
 * back to the old slot.
 */
export class OsImageExecutor implements Executor {
  readonly kind = "os_image";
  readonly #options: OsImageOptions;
  readonly #backend: ImageBackend | undefined;
  readonly #record: ImageRecordFile;
  readonly #running = new Map<string, string>();
  /** The app whose image is being written; null if none is. */
  #writer: string | null = null;

  constructor(options: OsImageOptions) {
    const { config, paths, clock, log } = options;
    this.#options = options;
    this.#backend = backendOf(config, clock);
    this.#record = new ImageRecordFile(paths.root, () => log.error("the record of OS images is damaged"));
  }

  get available(): boolean {
    return this.#backend !== undefined;
  }

  get #image(): ImageBackend {
    if (this.#backend === undefined) throw new StepFailure("incompatible", "this robot has neither RAUC nor an os_image hook");
    return this.#backend;
  }

  async #slots(signal: AbortSignal): Promise<Slots> {
    const status = await this.#image.status(signal);
    return { boot_id: readBootId(this.#options.config.system_root), ...status };
  }

  #changeOf(app: string, release: DesiredRelease): ImageChange | null {
    const { change } = this.#record.value;
    return change?.app === app && change.release_id === release.id && change.sha256 === release.artifact_sha256 ? change : null;
  }

  #update(change: ImageChange, fields: Partial<ImageChange>): ImageChange {
    const next = { ...change, ...fields };
    this.#record.write({ change: next });
    this.#options.on_step(`os_image.${next.phase}`);
    return next;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const slots = await this.#slots(io.signal);
    const change = this.#changeOf(app, release);
    if (change?.phase === "written" || (change?.phase === "activating" && change.to === slots.booted)) return;
    // The robot lost power after the image was complete, and before the old slot was activated again.
    if (change?.phase === "writing" && change.to === slots.booted) return void this.#update(change, { phase: "activating" });
    this.#checkFree(app, slots);
    if (this.#backend instanceof RaucBackend) checkStateDirectory(this.#options.config);
    await this.#options.artifacts.with(release, io, async (file) => {
      this.#writer = app;
      try {
        await this.#write(app, release, { file, slots, io });
      } finally {
        this.#writer = null;
      }
    });
  }

  /**
   * Throws if the other slot must not be overwritten: another app is installing an image, or the running image is not confirmed and the
   * other slot is its fallback.
   */
  #checkFree(app: string, { booted }: Slots): void {
    const { change } = this.#record.value;
    const busy = this.#writer ?? (change !== null && change.phase !== "written" && change.app !== app ? change.app : null);
    if (busy !== null)
      throw new StepFailure("rejected_by_robot", `app ${busy} is already installing an OS image; a robot installs one image at a time`);
    if (change !== null && change.phase !== "writing" && change.to === booted)
      throw new StepFailure("rejected_by_robot", `slot ${booted} runs image ${change.tag}, which is not confirmed yet`);
  }

  async #write(
    app: string,
    release: DesiredRelease,
    { file, slots: { booted, other, boot_id }, io }: { file: string; slots: Slots; io: StageIo },
  ): Promise<void> {
    const { clock } = this.#options;
    const { confirmed } = this.#record.value;
    const started: ImageChange = {
      app,
      release_id: release.id,
      tag: release.tag,
      sha256: release.artifact_sha256,
      phase: "writing",
      from: booted,
      to: other,
      boot_id,
      apps: [],
    };
    this.#record.write({ change: started, confirmed: confirmed && { ...confirmed, previous: null } });
    this.#options.on_step("os_image.writing");
    const progress = clock.every(PROGRESS_MS, () => io.progress(release.artifact_size, release.artifact_size));
    try {
      await this.#image.install({ file, tag: release.tag, sha256: release.artifact_sha256 }, io.signal);
    } finally {
      progress.cancel();
    }
    this.#options.on_step("os_image.installed");
    // Without this, any reboot would start the new image before the robot allows the update.
    await this.#image.activate(booted, io.signal);
    this.#update(started, { phase: "written" });
  }

  async start(app: string, release: DesiredRelease, { fresh, signal }: StartOptions): Promise<void> {
    const slots = await this.#slots(signal);
    const change = this.#changeOf(app, release);
    if (change === null) {
      if (this.#isConfirmed(app, release, slots)) return void this.#running.set(app, release.id);
      if (!fresh) throw new StepFailure("health_check_failed", `the robot runs slot ${slots.booted}, which is not image ${release.tag}`);
      // The record was lost. Write the image again, which restores the record.
      await this.stage(app, release, { signal, progress: () => {} });
      return this.start(app, release, { fresh, signal });
    }
    if (slots.booted === change.to) {
      if (change.phase !== "activating") this.#update(change, { phase: "activating" });
      return void this.#running.set(app, release.id);
    }
    if (change.phase !== "written" && !(change.phase === "activating" && change.boot_id === slots.boot_id))
      throw new StepFailure(
        "health_check_failed",
        `the robot started slot ${slots.booted} again instead of ${change.to}: image ${release.tag} did not boot, or restarted before it was confirmed`,
      );
    await this.#boot(change, change.to, "activating", { slots, signal });
  }

  #isConfirmed(app: string, release: DesiredRelease, { booted }: Slots): boolean {
    const { confirmed } = this.#record.value;
    return confirmed?.app === app && confirmed.release_id === release.id && confirmed.slot === booted;
  }

  /** Reboots into a slot. Never returns: throws StepAborted when the agent is stopped, or StepFailure if the robot does not reboot. */
  async #boot(
    change: ImageChange,
    slot: string,
    phase: "activating" | "reverting",
    { slots, signal }: { slots: Slots; signal: AbortSignal },
  ): Promise<never> {
    const { clock, log, on_step } = this.#options;
    const apps = phase === "activating" ? this.#healthyApps(change.app) : change.apps;
    this.#update(change, { phase, boot_id: slots.boot_id, apps });
    await this.#image.activate(slot, signal);
    on_step(`os_image.${phase}.activated`);
    log.warn({ slot, image: change.tag, phase }, "rebooting the robot for an OS image");
    await this.#image.reboot(signal);
    await clock.sleep(REBOOT_MS, signal);
    throwIfAborted(signal);
    throw new StepFailure("timeout", `the robot did not reboot within ${REBOOT_MS / 1_000} s`);
  }

  #healthyApps(except: string): string[] {
    return this.#options
      .workloads()
      .filter(({ app, status }) => app !== except && status === "running")
      .map(({ app }) => app);
  }

  running(app: string): string | null {
    return this.#running.get(app) ?? null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const change = this.#changeOf(app, release);
    if (change === null) return { healthy: true };
    const problem = await this.#watch(change, verify_seconds, signal);
    if (problem !== undefined) return { healthy: false, reason: "health_check_failed", message: problem };
    await this.#image.confirm(signal);
    this.#options.on_step("os_image.confirmed");
    this.#record.write({ confirmed: { app, release_id: release.id, slot: change.to, previous: change.from }, change: null });
    return { healthy: true };
  }

  /** Waits until the robot has been connected and healthy for the verification time. Returns the problem if that takes too long. */
  async #watch({ apps }: ImageChange, verify_seconds: number, signal: AbortSignal): Promise<string | undefined> {
    const { clock, timing, config, connected, workloads } = this.#options;
    const verify_ms = verify_seconds * 1_000;
    const end = clock.monotonic() + config.robot.os_image.connect_ms + verify_ms;
    let healthy_since: number | undefined;
    for (;;) {
      const status = new Map(workloads().map((one) => [one.app, one.status]));
      // An app without a status was removed meanwhile.
      const sick = apps.find((one) => status.has(one) && status.get(one) !== "running");
      let problem = !connected()
        ? "the agent is not connected to the server"
        : sick === undefined
          ? undefined
          : `app ${sick} is ${status.get(sick)}`;
      const now = clock.monotonic();
      healthy_since = problem === undefined ? (healthy_since ?? now) : undefined;
      if (healthy_since !== undefined && now - healthy_since >= verify_ms) {
        problem = await this.#probeApps(apps);
        if (problem === undefined) return undefined;
        healthy_since = undefined;
      }
      if (now >= end) return `with the new image, ${problem ?? "the robot was not healthy for long enough"}`;
      await clock.sleep(timing.probe_interval_ms, signal);
      throwIfAborted(signal);
    }
  }

  /**
   * Checks every app once: an app that started recently may have the status `running` before its first health check. Returns the first
   * problem.
   */
  async #probeApps(apps: readonly string[]): Promise<string | undefined> {
    const results = await Promise.all(apps.map(async (app) => ({ app, result: await this.#options.probe_app(app) })));
    const sick = results.find(({ result }) => result?.ok === false);
    return sick && `app ${sick.app} is unhealthy: ${sick.result?.message}`;
  }

  async probe(app: string, release: DesiredRelease): Promise<ProbeResult> {
    try {
      const slots = await this.#slots(new AbortController().signal);
      const ok = this.#isConfirmed(app, release, slots);
      return { ok, message: ok ? "installed" : `the robot runs slot ${slots.booted}, which does not contain this image` };
    } catch (error) {
      return { ok: false, message: errorText(error) };
    }
  }

  async alive(app: string): Promise<ProbeResult> {
    return this.#running.has(app) ? { ok: true, message: "installed" } : { ok: false, message: "another system runs" };
  }

  async restore(app: string, release: DesiredRelease, signal: AbortSignal): Promise<ProbeResult> {
    const change = this.#changeOf(app, release);
    if (change === null) return { ok: true, message: "the other slot was not started" };
    const slots = await this.#slots(signal);
    this.#running.delete(app);
    if (slots.booted !== change.from) await this.#boot(change, change.from, "reverting", { slots, signal });
    // The bootloader may have chosen this slot only because the other one failed.
    await this.#image.activate(change.from, signal);
    this.#options.on_step("os_image.restored");
    this.#record.write({ change: null });
    const { confirmed } = this.#record.value;
    if (confirmed?.app === app && confirmed.slot === slots.booted) this.#running.set(app, confirmed.release_id);
    return { ok: true, message: `slot ${change.from} runs` };
  }

  async stop(): Promise<void> {}

  /** Boots the system from before the app's first image. Throws if that system was overwritten. */
  async remove(app: string, signal: AbortSignal): Promise<void> {
    const { confirmed, change } = this.#record.value;
    if (change?.app === app) {
      const { release_id: id, tag, sha256: artifact_sha256 } = change;
      await this.restore(app, { id, tag, artifact_sha256 } as DesiredRelease, signal);
    }
    if (confirmed?.app !== app) return;
    this.#running.delete(app);
    const slots = await this.#slots(signal);
    if (slots.booted === confirmed.slot) {
      if (confirmed.previous === null)
        throw new Error(`the system from before app ${app} was overwritten: deploy another OS image instead of removing the app`);
      const { release_id, previous, slot: to } = confirmed;
      const back = { app, release_id, tag: release_id, sha256: "", phase: "reverting", from: previous, to, apps: [] } as const;
      await this.#boot({ ...back, boot_id: slots.boot_id, apps: [] }, previous, "reverting", { slots, signal });
    }
    this.#record.write({ confirmed: null, change: null });
  }

  prune(app: string, keep_release_ids: readonly string[]): void {
    const { change } = this.#record.value;
    if (change?.app !== app || keep_release_ids.includes(change.release_id)) return;
    if (change.phase === "written") this.#record.write({ change: null });
    this.abandonUnless(keep_release_ids);
  }

  /** Ensures that no reboot starts an image whose installation was interrupted, unless its release is one of these. */
  abandonUnless(wanted_release_ids: readonly string[]): void {
    const { change } = this.#record.value;
    if (change?.phase !== "writing" || wanted_release_ids.includes(change.release_id)) return;
    this.#abandon(change).catch((error: unknown) =>
      this.#options.log.error({ app: change.app, err: error }, "a cancelled OS image may start at the next boot"),
    );
  }

  async #abandon(change: ImageChange): Promise<void> {
    const { signal } = new AbortController();
    await this.#image.idle(signal);
    // A newer image may have taken the slot meanwhile.
    if (this.#record.value.change !== change || this.#writer !== null) return;
    const { booted } = await this.#slots(signal);
    await this.#image.activate(booted, signal);
    if (this.#record.value.change === change) this.#record.write({ change: null });
  }

  status(app: string): RunStatus {
    return { status: this.#running.has(app) ? "running" : "stopped", restarts: 0 };
  }

  async close(): Promise<void> {}
}

function backendOf({ robot, workload_environment: environment, system_root }: AgentConfig, clock: Clock): ImageBackend | undefined {
  const context = { clock, environment };
  if (robot.os_image.hook !== undefined) return new HookBackend(robot.os_image.hook, context);
  const rauc = findRauc(system_root, environment["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin");
  return rauc === undefined ? undefined : new RaucBackend(rauc, context);
}
