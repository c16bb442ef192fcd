import fs from "node:fs";
import { pipeline, type Readable, Transform } from "node:stream";
import type Docker from "dockerode";
import { type Clock, IdleTimeout } from "@roamfleet/clock";
import type { DesiredLayers } from "@roamfleet/protocol/link";
import { hash } from "node:crypto";
import type { StageIo } from "../executor.ts";
import { StepFailure, throwIfAborted, unlessAborted } from "../failure.ts";
import {
  DISK_FREE_FLOOR_BYTES,
  ENGINE_MOVE_MS,
  ENGINE_STALL_MS,
  type Timing,
  UNPACK_ALLOWANCE_BYTES,
  UNPACK_BYTES_MAX,
  UNPACK_RATIO_MAX,
} from "../limits.ts";
import { freeBytes } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";
import { type Engine, engineFailure, engineMessage, isAway, type ProgressLine, readProgress, statusOf } from "./engine.ts";
import type { LayerStore } from "../artifact-store.ts";
import { retryWaitMs } from "../download.ts";

interface ImagesOptions {
  engine: Engine;
  layers: LayerStore;
  clock: Clock;
  timing: Timing;
  /** Absolute path. It distinguishes the images of agents that share one engine. */
  state_directory: string;
  on_step: (name: string) => void;
}

export interface RegistryLogin {
  username: string;
  password: string;
}

/** Repository name of the agent's images. Its domain is reserved, so an engine never pulls it from a registry. */
const REPOSITORY = "roamfleet.local/apps";
/** Number of copies of an image on the engine's disk during a load: the archive and its unpacked contents. */
const LOAD_COPIES = 2;

/** Manages the images of releases in the engine. Each image is tagged with its app and release, so that it can be found and deleted. */
export class Images {
  readonly #options: ImagesOptions;
  readonly #owner: string;

  constructor(options: ImagesOptions) {
    this.#options = options;
    this.#owner = hash("sha256", options.state_directory).slice(0, 8);
  }

  #tag(app: string, release_id: string): string {
    return `${this.#owner}.${app}.${release_id}`;
  }

  name(app: string, release_id: string): string {
    return `${REPOSITORY}:${this.#tag(app, release_id)}`;
  }

  /** Returns the image's id, `sha256:…`; undefined if the engine has no image with this name or id. */
  async find(name: string, signal: AbortSignal): Promise<string | undefined> {
    try {
      return await this.#options.engine.use({ what: "look for an image", signal }, async (docker) => {
        const { Id } = await docker.getImage(name).inspect();
        return Id.startsWith("sha256:") ? Id : `sha256:${Id}`;
      });
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw engineFailure(error, "rejected_by_robot");
    }
  }

  /** Downloads the layers that the robot does not have, then loads the image into the engine. Returns the image's id. */
  async loadLayers(app: string, release_id: string, layers: DesiredLayers, io: StageIo): Promise<string> {
    const { layers: store, on_step } = this.#options;
    const known = await this.find(`sha256:${layers.config.sha256}`, io.signal);
    if (known !== undefined) {
      await this.#giveName(app, release_id, known, io.signal);
      return known;
    }
    const parts = [layers.config, ...layers.layers];
    await this.#checkSpace(
      parts.reduce((sum, { size }) => sum + size, 0),
      io.signal,
    );
    await store.fetch(parts, io);
    on_step("container.layers_fetched");
    // Import the module only when it is needed: most of the time a robot only supervises its workloads.
    const { composeArchive, unpackedBytes } = await import("./image-archive.ts");
    const files = parts.map(({ sha256 }) => store.file(sha256));
    await this.#checkUnpacked(files, (max) => unpackedBytes(files, max, io.signal), io.signal).catch((error: unknown) => {
      store.drop(parts);
      throw error;
    });
    on_step("container.layers_checked");
    const name = this.name(app, release_id);
    try {
      await this.#load(() => composeArchive(layers, name, (sha256) => store.file(sha256)), io.signal);
    } catch (error) {
      const failure = engineFailure(error, "rejected_by_robot");
      // If the engine refuses the parts, they may be damaged on disk. Delete them, so that the next attempt downloads them again.
      if (failure.reason === "rejected_by_robot") store.drop(parts);
      throw failure;
    }
    return this.#named(name, io.signal);
  }

  /** Loads an image from one archive on the robot's disk into the engine. Returns the image's id. */
  async loadArchive(app: string, release_id: string, archive: string, io: StageIo): Promise<string> {
    const { readArchive, renameArchive, unpackedArchiveBytes } = await import("./image-archive.ts");
    const image = await readArchive(archive, process.arch);
    const name = this.name(app, release_id);
    if ((await this.find(image.image_id, io.signal)) !== undefined) {
      await this.#giveName(app, release_id, image.image_id, io.signal);
      return image.image_id;
    }
    await this.#checkSpace(fs.statSync(archive).size, io.signal);
    await this.#checkUnpacked([archive], (max) => unpackedArchiveBytes(archive, max, io.signal), io.signal);
    try {
      await this.#load(() => renameArchive(archive, image, name), io.signal);
    } catch (error) {
      throw engineFailure(error, "rejected_by_robot");
    }
    return this.#named(name, io.signal);
  }

  async #load(archive: () => Readable, signal: AbortSignal): Promise<void> {
    const stalled = new StepFailure("timeout", `the container engine made no progress with the image for ${ENGINE_STALL_MS / 1_000} s`);
    await this.#move("load an image", stalled, signal, async (docker, abortSignal, moved) => {
      const meter = new Transform({
        transform: (chunk, _, done) => {
          moved();
          done(null, chunk);
        },
      });
      const content = archive();
      const unreadable = new AbortController();
      // Errors of the engine are reported by the call below. A local read error would appear there as if the engine had stopped, so report
      // it here.
      pipeline(content, meter, () => {
        const { errored } = content;
        if (errored !== null)
          unreadable.abort(
            new StepFailure("rejected_by_robot", `a part of the image cannot be read: ${errored.message}`, { cause: errored }),
          );
      });
      const call = AbortSignal.any([abortSignal, unreadable.signal]);
      try {
        const answer = await unlessAborted(call, docker.loadImage(meter, { abortSignal: call }));
        await unlessAborted(call, readProgress(answer, moved));
      } catch (error) {
        throw unreadable.signal.aborted ? unreadable.signal.reason : error;
      } finally {
        // Destroy both streams: an archive that is not read to its end would keep its file open.
        meter.destroy();
        content.destroy();
      }
    });
    this.#options.on_step("container.image_loaded");
  }

  /**
   * Runs a call that transfers an image. The call may take long, but fails if it makes no progress for ENGINE_STALL_MS. `work` must call
   * `moved` on progress.
   */
  async #move(
    what: string,
    stalled: StepFailure,
    signal: AbortSignal,
    work: (docker: Docker, abortSignal: AbortSignal, moved: () => void) => Promise<void>,
  ): Promise<void> {
    const { engine, clock } = this.#options;
    const stall = new AbortController();
    const idle = new IdleTimeout(clock, ENGINE_STALL_MS, () => stall.abort(stalled));
    const options = { what, signal: AbortSignal.any([signal, stall.signal]), limit_ms: ENGINE_MOVE_MS };
    try {
      await engine.use(options, (docker, abortSignal) => work(docker, abortSignal, () => idle.touch()));
    } catch (error) {
      throw stall.signal.aborted && !signal.aborted ? stalled : error;
    } finally {
      idle.stop();
    }
  }

  async #named(name: string, signal: AbortSignal): Promise<string> {
    const id = await this.find(name, signal);
    if (id === undefined) throw new StepFailure("rejected_by_robot", "the container engine accepted the image but does not list it");
    return id;
  }

  async #giveName(app: string, release_id: string, id: string, signal: AbortSignal): Promise<void> {
    await this.#options.engine.use({ what: "tag an image", signal }, (docker, abortSignal) =>
      docker.getImage(id).tag({ repo: REPOSITORY, tag: this.#tag(app, release_id), abortSignal }),
    );
  }

  /**
   * Returns the directory in which the engine stores its images. Undefined: this process cannot see it, and only the engine reports a full
   * disk.
   */
  async #root(signal: AbortSignal): Promise<string | undefined> {
    const info: unknown = await this.#options.engine.use({ what: "describe itself", signal }, (docker) => docker.info());
    const { DockerRootDir: root } = fieldsOf(info);
    return typeof root === "string" && fs.existsSync(root) ? root : undefined;
  }

  async #checkSpace(bytes: number, signal: AbortSignal): Promise<void> {
    const root = await this.#root(signal);
    if (root === undefined) return;
    const needed = bytes * LOAD_COPIES + DISK_FREE_FLOOR_BYTES;
    const free = await freeBytes(root);
    if (free < needed)
      throw new StepFailure(
        "insufficient_disk",
        `the image needs ${needed} bytes below ${root} (and ${DISK_FREE_FLOOR_BYTES} must stay free), but only ${free} are free`,
      );
  }

  /** Throws StepFailure if the unpacked image is too large, since the engine would unpack it until its disk is full. */
  async #checkUnpacked(files: readonly string[], measure: (max: number) => Promise<number>, signal: AbortSignal): Promise<void> {
    const packed = files.reduce((sum, file) => sum + (fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0), 0);
    const most = Math.min(UNPACK_BYTES_MAX, packed * UNPACK_RATIO_MAX + UNPACK_ALLOWANCE_BYTES);
    const root = await this.#root(signal);
    const room = root === undefined ? Infinity : (await freeBytes(root)) - DISK_FREE_FLOOR_BYTES;
    // While the engine unpacks the archive, its disk also contains the archive itself.
    const unpacked = packed + (await measure(Math.min(most, room - packed)));
    if (unpacked > room)
      throw new StepFailure(
        "insufficient_disk",
        `the image needs more than ${room} bytes below ${root} unpacked, and ${DISK_FREE_FLOOR_BYTES} must stay free`,
      );
    if (unpacked > packed + most)
      throw new StepFailure("rejected_by_robot", `the image is larger than ${most} bytes when unpacked (${packed} bytes packed)`);
  }

  /**
   * Pulls an image by its digest. If the registry is unreachable, retries as often as a download. If the registry responds that the image
   * does not exist or is not allowed, fails without a retry. Throws StepFailure `download_failed`, `insufficient_disk`.
   */
  async pull(app: string, release_id: string, image: string, login: () => RegistryLogin | undefined, io: StageIo): Promise<string> {
    const { clock, timing, on_step } = this.#options;
    if (!/^[^\s@]+@sha256:[0-9a-f]{64}$/.test(image))
      throw new StepFailure("rejected_by_robot", `image ${image} is not named by its digest (name@sha256:…)`);
    await this.#checkSpace(0, io.signal);
    let tries = 0;
    let most = 0;
    while ((await this.find(image, io.signal)) === undefined) {
      throwIfAborted(io.signal);
      const progress = new PullProgress(io);
      try {
        await this.#pullOnce(image, login(), progress, io.signal);
        continue;
      } catch (error) {
        throwIfAborted(io.signal);
        const failure = engineFailure(error, "download_failed");
        if (failure.reason !== "download_failed" || isFinal(error, login() !== undefined)) throw failure;
        tries = progress.done > most ? 1 : tries + 1;
        most = Math.max(most, progress.done);
        if (tries >= timing.download_tries)
          throw new StepFailure(
            "download_failed",
            `the image could not be pulled in ${tries} attempts; the last error: ${failure.message}`,
            {
              cause: error,
            },
          );
      }
      await clock.sleep(retryWaitMs(clock, timing, tries), io.signal);
    }
    on_step("container.image_pulled");
    const id = await this.#named(image, io.signal);
    await this.#giveName(app, release_id, id, io.signal);
    return id;
  }

  async #pullOnce(image: string, login: RegistryLogin | undefined, progress: PullProgress, signal: AbortSignal): Promise<void> {
    const stalled = new StepFailure("download_failed", `the registry sent nothing for ${ENGINE_STALL_MS / 1_000} s`);
    const registry = image.slice(0, image.indexOf("/"));
    await this.#move("pull an image", stalled, signal, async (docker, abortSignal, moved) => {
      const answer = await docker.pull(image, {
        abortSignal,
        ...(login === undefined ? {} : { authconfig: { username: login.username, password: login.password, serveraddress: registry } }),
      });
      await readProgress(answer, (line) => {
        moved();
        progress.take(line);
      });
    });
  }

  /** Removes the tags of all other releases of the app. The engine then deletes images without another tag or container. */
  async prune(app: string, keep_release_ids: readonly string[], signal: AbortSignal): Promise<void> {
    const { engine, on_step } = this.#options;
    const prefix = `${REPOSITORY}:${this.#owner}.${app}.`;
    const images = await engine.use({ what: "list its images", signal }, (docker) => docker.listImages());
    for (const { Id, RepoTags } of images) {
      for (const name of RepoTags ?? []) {
        const release_id = name.startsWith(prefix) ? name.slice(prefix.length) : undefined;
        // Release ids contain no dot. If there is one, the tag belongs to an app whose name begins with this app's name.
        if (release_id === undefined || release_id.includes(".") || keep_release_ids.includes(release_id)) continue;
        await this.#remove(name, signal);
        on_step("container.image_untagged");
        await this.#removeNameless(Id, signal);
      }
    }
  }

  /** Deletes an image that was pulled by digest. After its tag is removed, the digest remains as its name. */
  async #removeNameless(id: string, signal: AbortSignal): Promise<void> {
    const left = await this.#options.engine.useUnless([404], { what: "look for an image", signal }, (docker) =>
      docker.getImage(id).inspect(),
    );
    if (left === undefined || (left.RepoTags ?? []).length > 0) return;
    for (const name of left.RepoDigests ?? []) await this.#remove(name, signal);
  }

  async #remove(name: string, signal: AbortSignal): Promise<void> {
    // Ignore two statuses. 404: the image is already deleted. 409: a container that is not the agent's uses it.
    await this.#options.engine.useUnless([404, 409], { what: "delete an image", signal }, (docker, abortSignal) =>
      docker.getImage(name).remove({ abortSignal }),
    );
  }
}

/**
 * Returns whether a retry would fail in the same way. A refusal is not final while there is no login, since the server may still send one.
 */
function isFinal(error: unknown, logged_in: boolean): boolean {
  if (isAway(error)) return false;
  if (!logged_in && /unauthorized|access denied|denied:|no basic auth/i.test(engineMessage(error))) return false;
  const status = statusOf(error);
  const message = engineMessage(error);
  return (
    status === 404 ||
    status === 400 ||
    /manifest unknown|name unknown|repository .* not found|no such image|unauthorized|access denied|denied:|invalid reference|no basic auth|no matching manifest/i.test(
      message,
    )
  );
}

/** Computes the progress of a pull from the layers that are downloaded. Layers that the engine already has do not count. */
class PullProgress {
  readonly #io: StageIo;
  readonly #layers = new Map<string, { done: number; total: number }>();

  constructor(io: StageIo) {
    this.#io = io;
  }

  get done(): number {
    return [...this.#layers.values()].reduce((sum, { done }) => sum + done, 0);
  }

  take({ id, status, progressDetail }: ProgressLine): void {
    if (id === undefined) return;
    const layer = this.#layers.get(id);
    if (status === "Downloading" && progressDetail?.total !== undefined && progressDetail.current !== undefined)
      this.#layers.set(id, { done: progressDetail.current, total: progressDetail.total });
    else if (status === "Download complete" && layer !== undefined) layer.done = layer.total;
    else return;
    const total = [...this.#layers.values()].reduce((sum, one) => sum + one.total, 0);
    this.#io.progress(this.done, total);
  }
}
