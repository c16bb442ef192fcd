import type { DesiredRelease } from "@roamfleet/protocol/link";
import type { RuntimeOptions } from "../bundle.ts";
import { StepFailure } from "../failure.ts";
import { type ContainerSpec, readContainerManifest } from "./container-manifest.ts";
import { type ContainerRecord, type Kept, NO_CONTAINERS, readRecord, readStagedImage, writeRecord } from "./container-record.ts";
import type { Containers, Found } from "./containers.ts";
import { createOptions, portsClash } from "./create-options.ts";
import { type Bind, isWithin, refuseSwappable } from "./swappable-mounts.ts";
import { SocketDirectory } from "./socket-mount.ts";

export interface ReplacementOptions extends Pick<RuntimeOptions, "paths" | "config" | "clock" | "log" | "on_step" | "requires_signature"> {
  containers: Containers;
}

const SUFFIX_BYTES = 3;

/** podman leaves `sha256:` out. */
const bare = (image_id: string): string => image_id.replace(/^sha256:/, "");

/** Which container is to run: the one that is there, the one before it, or a new one. */
export class Replacement {
  readonly #options: ReplacementOptions;
  readonly #socket: SocketDirectory;

  constructor(options: ReplacementOptions) {
    this.#options = options;
    this.#socket = new SocketDirectory(options);
  }

  /** Answers the container to start; what it takes the place of is stopped or kept beside, as its manifest says. */
  async choose(app: string, release: DesiredRelease, { fresh, signal }: { fresh: boolean; signal: AbortSignal }): Promise<Kept> {
    // A container that is there has it mounted: the directory is to be there when it is started.
    this.#socket.prepare();
    const found = await this.#options.containers.list(app, { signal });
    const record = readRecord(this.#options.paths, app);
    const there = fresh ? await this.#goBack(app, release, record, found, signal) : this.#adopt(release, record, found);
    if (there !== undefined && (await this.#isOfRelease(app, release, there, signal))) return there;
    return this.#install(app, release, record, found, signal);
  }

  /** While signatures are required, a container of another image than the staged one is replaced. */
  async #isOfRelease(app: string, release: DesiredRelease, { container_id }: Kept, signal: AbortSignal): Promise<boolean> {
    const { requires_signature, containers, paths, log } = this.#options;
    if (!requires_signature()) return true;
    const staged = readStagedImage(paths.version(app, release.id));
    const image = (await containers.inspect(container_id, { signal }))?.Image;
    if (staged !== undefined && image !== undefined && bare(image) === bare(staged.image_id)) return true;
    log.error({ app, release: release.tag }, "a container is not of the signed image: it is made anew");
    await containers.remove(container_id, signal);
    return false;
  }

  /** Refuses what this robot will not run: StepFailure `rejected_by_robot`. */
  async check(app: string, release: DesiredRelease, signal: AbortSignal): Promise<void> {
    await this.#checkMounts(app, this.#createOptions(app, release, ""), signal);
  }

  async #checkMounts(app: string, { HostConfig }: ReturnType<typeof createOptions>, signal: AbortSignal): Promise<void> {
    // No place holds a colon: what does is refused.
    const wanted = (HostConfig?.Binds ?? []).flatMap((bind): Bind[] => {
      const [source = "", , mode] = bind.split(":");
      return isWithin(source, this.#options.paths.root) ? [] : [{ app, source, writable: mode !== "ro" }];
    });
    if (wanted.length > 0) refuseSwappable(wanted, await this.#options.containers.binds(app, signal));
  }

  /** What the engine is asked for. Refuses as above. */
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

  /** After a restart of the agent: the container that is there. */
  #adopt(release: DesiredRelease, { current }: ContainerRecord, found: readonly Found[]): Kept | undefined {
    const mine = found.filter(({ release_id }) => release_id === release.id);
    const one = mine.find(({ id }) => id === current?.container_id) ?? mine.find(({ state }) => state === "running");
    return one === undefined ? undefined : { container_id: one.id, release_id: one.release_id };
  }

  /** The very container that ran before, as it was left, when the release is the one to go back to. */
  async #goBack(
    app: string,
    release: DesiredRelease,
    record: ContainerRecord,
    found: readonly Found[],
    signal: AbortSignal,
  ): Promise<Kept | undefined> {
    const { paths, on_step, containers } = this.#options;
    const old = record.settled && record.stopped ? record.current : record.old;
    if (old?.release_id !== release.id || !found.some(({ id }) => id === old.container_id)) return undefined;
    // The bad one first: it may hold what the old one needs.
    for (const { id } of found) if (id !== old.container_id) await containers.remove(id, signal);
    on_step("container.bad_removed");
    writeRecord(paths, app, { ...NO_CONTAINERS, current: old, settled: true });
    on_step("container.old_is_current");
    return old;
  }

  /** A new container; what ran before is kept, stopped or beside it, until the new one is settled. */
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
    // By its digest, as it was signed: what was noted at staging lies on the disk.
    const image = this.#options.requires_signature() && release.image !== null ? release.image : staged.image_id;
    const options = this.#createOptions(app, release, image);
    await this.#checkMounts(app, options, signal);
    const spec = readContainerManifest(release.manifest);
    for (const one of found) {
      if (one.id !== old?.container_id) await containers.remove(one.id, signal);
      else if (!this.#maybeBeside(app, spec, one)) await containers.stop(one.id, { signal });
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

  #maybeBeside(app: string, spec: ContainerSpec, before: Found): boolean {
    if (spec.replace === "after") return false;
    if (!portsClash(spec, before.ports)) return true;
    this.#options.log.warn({ app }, "both containers want the same port: the old one is stopped first");
    return false;
  }
}
