import fs from "node:fs";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { Timer } from "@roamfleet/clock";
import type { AppPlace } from "../../contract.ts";
import type { RuntimeOptions } from "../bundle.ts";
import type { Executor, RunStatus, StageIo } from "../executor.ts";
import { type ProbeResult, type Verdict, verifyWorkload } from "../health-check.ts";
import { StepFailure, throwIfAborted } from "../failure.ts";
import { RELOAD_TIMEOUT_MS } from "../limits.ts";
import { stageVersion } from "../staged-versions.ts";
import { type ContainerSpec, readContainerManifest } from "./container-manifest.ts";
import {
  hasRecord,
  type Kept,
  NO_CONTAINERS,
  readReading,
  readRecord,
  readStagedImage,
  Replacement,
  stagedParts,
  writeReading,
  writeRecord,
  writeStagedImage,
} from "./replacement.ts";
import { Containers, lacksImage } from "./containers.ts";
import { type Engine, engineMessage } from "./engine.ts";
import { checkAcrossRestarts, EVERY_TIME, WatchedContainer } from "./watched-container.ts";
import { Images, type RegistryLogin } from "./images.ts";
import type { LayerStore } from "../artifact-store.ts";

interface ContainerOptions extends RuntimeOptions {
  engine: Engine;
  layers: LayerStore;
  /** Returns the login for the registry of a release's image; undefined: none is known. */
  login: (release_id: string) => RegistryLogin | undefined;
}

interface Running {
  release: DesiredRelease;
  spec: ContainerSpec;
  container: WatchedContainer;
  health_timer: Timer | undefined;
}

/** Limits at shutdown: no wait for an unreachable engine, 10 s for one that hangs. After a longer wait, systemd would kill the agent. */
const CLOSE_WAIT = { wait_ms: 0, limit_ms: 10_000 };

/** Runs `container_image` releases: each app has an image and one container in the robot's engine, which keeps the container running. */
export class ContainerExecutor implements Executor {
  readonly kind = "container_image";
  readonly #options: ContainerOptions;
  readonly #images: Images;
  readonly #containers: Containers;
  readonly #replacement: Replacement;
  readonly #running = new Map<string, Running>();
  /** Cleanup that runs in the background, one task after the other for each app. */
  readonly #cleanups = new Map<string, Promise<void>>();
  /** Digests of image parts that are being staged. */
  readonly #staging = new Map<string, readonly string[]>();
  readonly #closing = new AbortController();

  constructor(options: ContainerOptions) {
    this.#options = options;
    const { engine, layers, clock, timing, paths, on_step } = options;
    this.#images = new Images({ engine, layers, clock, timing, state_directory: paths.root, on_step });
    this.#containers = new Containers(engine, paths.root);
    this.#replacement = new Replacement({ ...options, containers: this.#containers });
  }

  get available(): boolean {
    return this.#options.engine.available;
  }

  async stage(app: string, release: DesiredRelease, io: StageIo): Promise<void> {
    const { paths, on_step } = this.#options;
    await this.#replacement.check(app, release, io.signal);
    await this.#cleanups.get(app);
    const directory = paths.version(app, release.id);
    const staged = readStagedImage(directory);
    if (staged !== undefined) {
      if ((await this.#images.find(staged.image_id, io.signal)) !== undefined) return;
      // The image was removed from the engine, so delete the agent's record of it, too.
      fs.rmSync(directory, { recursive: true, force: true });
    }
    this.#staging.set(app, release.layers ? [release.layers.config, ...release.layers.layers].map(({ sha256 }) => sha256) : []);
    try {
      const image_id = await this.#load(app, release, io);
      on_step("container.image_ready");
      await stageVersion(paths, app, release.id, async (place) => writeStagedImage(place, image_id, release.layers));
    } finally {
      this.#staging.delete(app);
    }
  }

  async #load(app: string, release: DesiredRelease, io: StageIo): Promise<string> {
    const { artifacts, login } = this.#options;
    if (release.image !== null) return this.#images.pull(app, release.id, release.image, () => login(release.id), io);
    if (release.layers) return this.#images.loadLayers(app, release.id, release.layers, io);
    let image_id = "";
    await artifacts.with(release, io, async (archive) => {
      image_id = await this.#images.loadArchive(app, release.id, archive, io);
    });
    return image_id;
  }

  async start(app: string, release: DesiredRelease, { fresh }: { fresh: boolean }): Promise<void> {
    if (!fresh && this.#running.get(app)?.release.id === release.id) return;
    const { signal } = this.#closing;
    await this.#cleanups.get(app);
    const before = this.#detach(app);
    let kept: Kept;
    try {
      kept = await this.#choose(app, release, { fresh, signal });
    } finally {
      await this.#stopWatching(app, before);
    }
    await this.#containers.start(kept.container_id, signal);
    this.#options.on_step("container.started");
    await this.#watch(app, release, kept);
  }

  /** Returns the container to run. If the engine has lost the image, loads it again from the parts that are still on the robot. */
  async #choose(app: string, release: DesiredRelease, options: { fresh: boolean; signal: AbortSignal }): Promise<Kept> {
    try {
      return await this.#replacement.choose(app, release, options);
    } catch (error) {
      if (!lacksImage(error)) throw error;
      this.#options.log.warn(
        { app, release: release.tag },
        "the container engine no longer has the image of a release; loading the image again",
      );
      await this.#load(app, release, { signal: options.signal, progress: () => {} });
      return this.#replacement.choose(app, release, options);
    }
  }

  async #watch(app: string, release: DesiredRelease, { container_id }: Kept): Promise<void> {
    const { paths, on_step } = this.#options;
    const spec = readContainerManifest(release.manifest);
    const container = new WatchedContainer({
      ...this.#options,
      app,
      container_id,
      spec,
      read_until: readReading(paths, app, container_id),
      containers: this.#containers,
    });
    await container.start(this.#closing.signal);
    this.#running.set(app, { release, spec, container, health_timer: undefined });
    on_step("container.watched");
  }

  #detach(app: string): Running | undefined {
    const running = this.#running.get(app);
    this.#running.delete(app);
    running?.health_timer?.cancel();
    return running;
  }

  /** Stops watching the container, without checking whether it still runs. */
  async #stopWatching(app: string, running: Running | undefined): Promise<void> {
    if (running === undefined) return;
    await running.container.close();
    this.#saveLogPosition(app, running.container);
  }

  #saveLogPosition(app: string, { container_id, read_until }: WatchedContainer): void {
    const { paths, log } = this.#options;
    try {
      if (readReading(paths, app, container_id) !== read_until) writeReading(paths, app, container_id, read_until);
    } catch (error) {
      log.warn({ app, err: error }, "the read position of a container's log could not be stored");
    }
  }

  running(app: string): string | null {
    return this.#running.get(app)?.release.id ?? null;
  }

  async verify(app: string, release: DesiredRelease, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const running = this.#running.get(app);
    if (running?.release.id !== release.id) throw new StepFailure("rejected_by_robot", `release ${release.tag} was not started`);
    const { container } = running;
    const verdict = await this.#verifyAcrossRestarts(app, container, verify_seconds, signal);
    if (!verdict.healthy) return verdict;
    const { old } = readRecord(this.#options.paths, app);
    if (old !== null) await this.#containers.stop(old.container_id, { signal });
    this.#options.on_step("container.old_stopped");
    return verdict;
  }

  async #verifyAcrossRestarts(app: string, container: WatchedContainer, verify_seconds: number, signal: AbortSignal): Promise<Verdict> {
    const { clock, timing } = this.#options;
    const verify = () => verifyWorkload({ workload: container, probe: () => container.check(), verify_seconds, clock, timing, signal });
    const restarts = { ...this.#options, app, container, containers: this.#containers, signal };
    const { result, interrupted } = await checkAcrossRestarts(restarts, verify, ({ healthy }) => healthy);
    return interrupted && !result.healthy ? { ...result, message: result.message + EVERY_TIME } : result;
  }

  async probe(app: string, release: DesiredRelease): Promise<ProbeResult> {
    const running = this.#running.get(app);
    if (running?.release.id !== release.id) return { ok: false, message: "not running" };
    return running.container.check();
  }

  async alive(app: string, signal: AbortSignal): Promise<ProbeResult> {
    const { clock, timing } = this.#options;
    const container = this.#running.get(app)?.container;
    if (container === undefined) return { ok: false, message: "the container is not running" };
    const stays = async (): Promise<ProbeResult> => {
      await container.refresh();
      const { pid } = container;
      await clock.sleep(timing.rollback_alive_ms, signal);
      throwIfAborted(signal);
      await container.refresh();
      if (container.pid !== undefined && container.pid === pid) return { ok: true, message: "running" };
      return { ok: false, message: `the container ${container.last_exit ?? "is not running"}` };
    };
    const restarts = { ...this.#options, app, container, containers: this.#containers, signal };
    const { result, interrupted } = await checkAcrossRestarts(restarts, stays, ({ ok }) => ok);
    return interrupted ? { ok: false, message: result.message + EVERY_TIME } : result;
  }

  settle(app: string): void {
    const { clock, timing, paths, log } = this.#options;
    const running = this.#running.get(app);
    if (running === undefined) return;
    const { container, release } = running;
    try {
      writeRecord(paths, app, {
        ...NO_CONTAINERS,
        current: { container_id: container.container_id, release_id: release.id },
        settled: true,
      });
    } catch (error) {
      // The container runs anyway: the next start finds it by its labels.
      log.warn({ app, err: error }, "the running container could not be recorded");
    }
    this.#cleanUp(app, () => this.#removeOthers(app, container.container_id));
    running.health_timer?.cancel();
    running.health_timer = clock.every(timing.probe_idle_interval_ms, () => this.#poll(app, running));
  }

  async #removeOthers(app: string, container_id: string): Promise<void> {
    const { signal } = this.#closing;
    for (const { id } of await this.#containers.list(app, { signal })) if (id !== container_id) await this.#containers.remove(id, signal);
  }

  async #poll(app: string, running: Running): Promise<void> {
    const { log, on_lost } = this.#options;
    const { container } = running;
    try {
      const { ok, message } = await container.check(0);
      if (this.#running.get(app) !== running) return;
      if (ok !== container.healthy) log.warn({ app, healthy: ok, probe: message }, "workload health changed");
      container.healthy = ok;
      this.#saveLogPosition(app, container);
    } catch {
      // The engine is unreachable, or the agent stops. The next poll checks again.
      return;
    }
    if (container.down && running.spec.restart.policy === "always") await this.#restart(app, container);
    if (!container.gone) return;
    log.warn({ app }, "the container no longer exists in the engine; creating it again");
    await this.#stopWatching(app, this.#detach(app));
    on_lost(app);
  }

  /**
   * Starts a container that the engine did not restart: after dockerd 20.10 was killed, it restarts no containers, even with policy
   * `always`. Also starts the container after a local `docker stop`, which does not change the desired state.
   */
  async #restart(app: string, { container_id }: WatchedContainer): Promise<void> {
    const { log } = this.#options;
    log.warn({ app }, "the container engine did not restart the container; starting it");
    await this.#containers
      .start(container_id, this.#closing.signal)
      .catch((error: unknown) => log.warn({ app, reason: engineMessage(error) }, "the container could not be started"));
  }

  async stop(app: string): Promise<void> {
    await this.#stopAll(app, {});
  }

  async #stopAll(app: string, { limit_ms, ...wait }: { wait_ms?: number; limit_ms?: number }): Promise<void> {
    const { paths, on_step } = this.#options;
    if (!hasRecord(paths, app)) return;
    const { signal } = this.#closing;
    const running = this.#detach(app);
    try {
      for (const { id, state } of await this.#containers.list(app, { signal, ...wait, ...(limit_ms === undefined ? {} : { limit_ms }) }))
        if (state !== "exited" && state !== "created") await this.#containers.stop(id, { signal, ...wait });
    } finally {
      await this.#stopWatching(app, running);
    }
    on_step("container.stopped");
    writeRecord(paths, app, { ...readRecord(paths, app), stopped: true });
  }

  async remove(app: string): Promise<void> {
    const { paths, on_step } = this.#options;
    const { signal } = this.#closing;
    // Without a record and without an engine, there is nothing to remove.
    if (!hasRecord(paths, app) && !this.available) return;
    await this.#cleanups.get(app);
    const running = this.#detach(app);
    try {
      for (const { id } of await this.#containers.list(app, { signal })) {
        await this.#containers.stop(id, { signal });
        await this.#containers.remove(id, signal);
        on_step("container.removed");
      }
    } finally {
      await this.#stopWatching(app, running);
    }
    await this.#images.prune(app, [], signal);
    await this.#containers.removeVolumes(app, signal);
    on_step("container.all_removed");
    fs.rmSync(paths.versions(app), { recursive: true, force: true });
    this.#pruneLayers();
  }

  prune(app: string, keep_release_ids: readonly string[]): void {
    const { signal } = this.#closing;
    if (this.available) this.#cleanUp(app, () => this.#images.prune(app, keep_release_ids, signal).then(() => this.#pruneLayers()));
  }

  #pruneLayers(): void {
    const keep = stagedParts(this.#options.paths);
    for (const parts of this.#staging.values()) for (const part of parts) keep.add(part);
    this.#options.layers.prune(keep);
  }

  /** Runs cleanup in the background. Steps that the cleanup could disturb wait for its end. The next cleanup repeats a failed one. */
  #cleanUp(app: string, work: () => Promise<void>): void {
    const turn = (this.#cleanups.get(app) ?? Promise.resolve()).then(work).catch((error: unknown) => {
      if (!this.#closing.signal.aborted)
        this.#options.log.warn({ app, reason: engineMessage(error) }, "could not clean up after a container");
    });
    this.#cleanups.set(app, turn);
  }

  place(app: string): AppPlace | undefined {
    const container_id = this.#running.get(app)?.container.container_id;
    return container_id === undefined ? undefined : { container: { engine: this.#options.engine, container_id } };
  }

  metrics_url(app: string): string | undefined {
    return this.#running.get(app)?.container.metrics_url;
  }

  status(app: string): RunStatus {
    const running = this.#running.get(app);
    if (running === undefined) return { status: "stopped", restarts: 0 };
    const { alive, healthy, restarts } = running.container;
    if (!alive) return { status: running.spec.restart.policy === "never" ? "stopped" : "restarting", restarts };
    return { status: healthy ? "running" : "unhealthy", restarts };
  }

  reload(app: string): void {
    const running = this.#running.get(app);
    const reload = running?.spec.reload ?? null;
    if (running === undefined || reload === null) return;
    if ("signal" in reload) return this.#kill(app, running, reload.signal);
    void running.container.run(reload.command, RELOAD_TIMEOUT_MS).then(
      ({ ok, message }) => ok || this.#options.log.warn({ app, reason: message }, "reload command failed"),
      () => {},
    );
  }

  signal(app: string, signal: NodeJS.Signals): boolean {
    const running = this.#running.get(app);
    if (running === undefined || !running.container.alive) return false;
    this.#kill(app, running, signal);
    return true;
  }

  #kill(app: string, { container }: Running, name: NodeJS.Signals): void {
    this.#containers
      .kill(container.container_id, name, this.#closing.signal)
      .catch((error: unknown) => this.#options.log.warn({ app, reason: engineMessage(error) }, "the container could not be signaled"));
  }

  async close(keep_workloads: boolean): Promise<void> {
    const apps = [...this.#running.keys()];
    this.#options.engine.close();
    await Promise.all(
      apps.map(async (app) => {
        try {
          await (keep_workloads ? this.#stopWatching(app, this.#detach(app)) : this.#stopAll(app, CLOSE_WAIT));
        } catch (error) {
          this.#options.log.warn({ app, reason: engineMessage(error) }, "the container could not be stopped");
        }
      }),
    );
    this.#closing.abort();
    await Promise.all(this.#cleanups.values());
  }
}
