import fs from "node:fs";
import path from "node:path";
import type { DesiredLayers, DesiredRelease } from "@roamfleet/protocol/link";
import { makeDirectory, readJson, writeJson } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";
import type { StatePaths } from "../paths.ts";
import type { RuntimeOptions } from "../bundle.ts";
import { StepFailure } from "../failure.ts";
import { type ContainerSpec, readContainerManifest } from "./container-manifest.ts";
import { type Bind, type Containers, type Found, isWithin, refuseSwappable } from "./containers.ts";
import { createOptions, portsClash, SocketDirectory } from "./create-options.ts";

export interface Kept {
  container_id: string;
  release_id: string;
}

/** The record of an app's containers, written to disk before each change of them. */
interface ContainerRecord {
  /** The container that should run. */
  current: Kept | null;
  /** The previous container, kept unchanged for a rollback. It is either stopped or still runs beside the current one. */
  old: Kept | null;
  settled: boolean;
  /** True if the current container was stopped on purpose and is kept. */
  stopped: boolean;
}

export const NO_CONTAINERS: ContainerRecord = { current: null, old: null, settled: false, stopped: false };

const recordFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "container.json");
const readingFile = (paths: StatePaths, app: string): string => path.join(paths.app(app), "container-log.json");
const imageFile = (directory: string): string => path.join(directory, "image.json");

export const hasRecord = (paths: StatePaths, app: string): boolean => fs.existsSync(recordFile(paths, app));

/** Reads the record of an app's containers. A damaged record counts as empty, since containers can be found by their labels. */
export function readRecord(paths: StatePaths, app: string): ContainerRecord {
  return { ...NO_CONTAINERS, ...fieldsOf(readJson(recordFile(paths, app))) };
}

export function writeRecord(paths: StatePaths, app: string, record: ContainerRecord): void {
  makeDirectory(paths.app(app), 0o755);
  writeJson(recordFile(paths, app), record);
}

/** Returns the time up to which the container's output was read, in nanoseconds since 1970; 0 if none is stored for this container. */
export function readReading(paths: StatePaths, app: string, container_id: string): bigint {
  const reading = fieldsOf(readJson(readingFile(paths, app)));
  const { read_until } = reading;
  return reading["container_id"] === container_id && typeof read_until === "string" && /^\d{1,20}$/.test(read_until)
    ? BigInt(read_until)
    : 0n;
}

export function writeReading(paths: StatePaths, app: string, container_id: string, read_until: bigint): void {
  if (fs.existsSync(paths.app(app))) writeJson(readingFile(paths, app), { container_id, read_until: String(read_until) });
}

/** The agent's record of an image that is staged in the engine. */
interface StagedImage {
  image_id: string;
  /** Digests of its parts in the layer cache. */
  parts: string[];
}

export function writeStagedImage(directory: string, image_id: string, layers: DesiredLayers | null | undefined): void {
  makeDirectory(directory, 0o755);
  const parts = layers ? [layers.config, ...layers.layers].map(({ sha256 }) => sha256) : [];
  writeJson(imageFile(directory), { image_id, parts } satisfies StagedImage);
}

export function readStagedImage(directory: string): StagedImage | undefined {
  const { image_id, parts } = fieldsOf(readJson(imageFile(directory))) as Partial<StagedImage>;
  return typeof image_id === "string" && Array.isArray(parts) ? { image_id, parts } : undefined;
}

/** Returns the digests of the image parts of all staged releases, of all apps. */
export function stagedParts(paths: StatePaths): Set<string> {
  const parts = new Set<string>();
  if (!fs.existsSync(paths.apps)) return parts;
  for (const app of fs.readdirSync(paths.apps)) {
    const versions = path.join(paths.apps, app, "versions");
    if (!fs.existsSync(versions)) continue;
    for (const version of fs.readdirSync(versions))
      for (const part of readStagedImage(path.join(versions, version))?.parts ?? []) parts.add(part);
  }
  return parts;
}

interface ReplacementOptions extends Pick<RuntimeOptions, "paths" | "config" | "clock" | "log" | "on_step" | "requires_signature"> {
  containers: Containers;
}

const SUFFIX_BYTES = 3;

/** Returns the id without `sha256:`, which podman omits. */
const bare = (image_id: string): string => image_id.replace(/^sha256:/, "");

/** Chooses the container to run: the existing one, the previous one, or a new one. */
export class Replacement {
  readonly #options: ReplacementOptions;
  readonly #socket: SocketDirectory;

  constructor(options: ReplacementOptions) {
    this.#options = options;
    this.#socket = new SocketDirectory(options);
  }

  /**
   * Returns the container to start. Depending on the release's manifest, the container that it replaces is stopped first or keeps running
   * beside it.
   */
  async choose(app: string, release: DesiredRelease, { fresh, signal }: { fresh: boolean; signal: AbortSignal }): Promise<Kept> {
    // Prepare the socket's directory now: an existing container has it mounted and cannot start without it.
    this.#socket.prepare();
    const found = await this.#options.containers.list(app, { signal });
    const record = readRecord(this.#options.paths, app);
    const there = fresh ? await this.#restorePrevious(app, release, record, found, signal) : this.#adopt(release, record, found);
    if (there !== undefined && (await this.#isOfRelease(app, release, there, signal))) return there;
    return this.#install(app, release, record, found, signal);
  }

  /**
   * Returns whether a container was created from the staged image, and removes the container if not. While signatures are not required,
   * always returns true.
   */
  async #isOfRelease(app: string, release: DesiredRelease, { container_id }: Kept, signal: AbortSignal): Promise<boolean> {
    const { requires_signature, containers, paths, log } = this.#options;
    if (!requires_signature()) return true;
    const staged = readStagedImage(paths.version(app, release.id));
    const image = (await containers.inspect(container_id, { signal }))?.Image;
    if (staged !== undefined && image !== undefined && bare(image) === bare(staged.image_id)) return true;
    log.error({ app, release: release.tag }, "a container does not run the signed image; creating the container again");
    await containers.remove(container_id, signal);
    return false;
  }

  /** Throws StepFailure `rejected_by_robot` if this robot must not run the release. */
  async check(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void> {
    await this.#checkMounts(app, this.#createOptions(app, release, ""), signal);
  }

  async #checkMounts(app: string, { HostConfig }: ReturnType<typeof createOptions>, signal: AbortSignal): Promise<void> {
    // Splitting at colons is safe, since paths that contain a colon are refused.
    const wanted = (HostConfig?.Binds ?? []).flatMap((bind): Bind[] => {
      const [source = "", , mode] = bind.split(":");
      return isWithin(source, this.#options.paths.root) ? [] : [{ app, source, writable: mode !== "ro" }];
    });
    if (wanted.length > 0) refuseSwappable(wanted, await this.#options.containers.binds(app, signal));
  }

  #createOptions(app: string, release: DesiredRelease, image_id: string): ReturnType<typeof createOptions> {
    const { paths, config, clock } = this.#options;
    return createOptions({
      app,
      release,
      spec: readContainerManifest(release.manifest),
      image_id,
      state_directory: paths.root,
      configs_directory: paths.configs,
      mount_directories: config.mount_directories,
      allow_devices: config.allow_devices,
      allow_host_network: config.allow_host_network,
      engine_sockets: config.container_sockets,
      socket: this.#socket.prepare(),
      suffix: Buffer.from(clock.randomBytes(SUFFIX_BYTES)).toString("hex"),
    });
  }

  /** Returns the existing container of this release, for example after a restart of the agent. */
  #adopt(release: DesiredRelease, { current }: ContainerRecord, found: readonly Found[]): Kept | undefined {
    const mine = found.filter(({ release_id }) => release_id === release.id);
    const one = mine.find(({ id }) => id === current?.container_id) ?? mine.find(({ state }) => state === "running");
    return one === undefined ? undefined : { container_id: one.id, release_id: one.release_id };
  }

  /**
   * For a rollback: if the app's previous container belongs to this release, removes the app's other containers and returns the previous one.
   * Otherwise returns undefined.
   */
  async #restorePrevious(
    app: string,
    release: DesiredRelease,
    record: ContainerRecord,
    found: readonly Found[],
    signal: AbortSignal,
  ): Promise<Kept | undefined> {
    const { paths, on_step, containers } = this.#options;
    const old = record.settled && record.stopped ? record.current : record.old;
    if (old?.release_id !== release.id || !found.some(({ id }) => id === old.container_id)) return undefined;
    // Remove the bad container first: it may use resources that the old one needs.
    for (const { id } of found) if (id !== old.container_id) await containers.remove(id, signal);
    on_step("container.bad_removed");
    writeRecord(paths, app, { ...NO_CONTAINERS, current: old, settled: true });
    on_step("container.old_is_current");
    return old;
  }

  /**
   * Creates a new container. Keeps the previous one until the new release has been verified; whether it is stopped meanwhile depends on
   * the manifest.
   */
  async #install(
    app: string,
    release: DesiredRelease,
    record: ContainerRecord,
    found: readonly Found[],
    signal: AbortSignal,
  ): Promise<Kept> {
    const { paths, on_step, containers } = this.#options;
    const staged = readStagedImage(paths.version(app, release.id));
    if (staged === undefined) throw new StepFailure("rejected_by_robot", `release ${release.tag} is not staged`);
    const old = record.settled ? record.current : record.old;
    // Identify the image by its signed digest. The id that was recorded at staging is on disk, where it could have been changed.
    const image = this.#options.requires_signature() && release.image !== null ? release.image : staged.image_id;
    const options = this.#createOptions(app, release, image);
    await this.#checkMounts(app, options, signal);
    const spec = readContainerManifest(release.manifest);
    for (const one of found) {
      if (one.id !== old?.container_id) await containers.remove(one.id, signal);
      else if (!this.#mayRunBeside(app, spec, one)) await containers.stop(one.id, { signal });
    }
    on_step("container.others_stopped");
    const container_id = await containers.create(options, signal);
    on_step("container.created");
    const current = { container_id, release_id: release.id };
    writeRecord(paths, app, {
      current,
      old: found.some(({ id }) => id === old?.container_id) ? old : null,
      settled: false,
      stopped: false,
    });
    on_step("container.written_down");
    return current;
  }

  #mayRunBeside(app: string, spec: ContainerSpec, before: Found): boolean {
    if (spec.replace === "after") return false;
    if (!portsClash(spec, before.ports)) return true;
    this.#options.log.warn({ app }, "the old and the new container use the same port; stopping the old container first");
    return false;
  }
}
