import fs from "node:fs";
import path from "node:path";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { throwIfAborted, unlessAborted } from "./failure.ts";
import { type Artifact, downloadArtifact, type DownloadOptions } from "./download.ts";
import type { StageIo } from "./executor.ts";
import { makeDirectory } from "../disk/write-atomically.ts";

/** A set of mutexes, one for each key. */
class KeyedMutex {
  readonly #last = new Map<string, Promise<void>>();

  /** Returns whether a caller has locked the key or waits for it. */
  has(name: string): boolean {
    return this.#last.has(name);
  }

  /**
   * Locks the key and runs `work`. Callers of the same key run in the order of their calls. An aborted caller stops waiting, since the
   * current call may take hours.
   */
  async run(name: string, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const turn = before.then(() => {
      throwIfAborted(signal);
      return work();
    });
    const over = (): void => {
      if (this.#last.get(name) === settled) this.#last.delete(name);
    };
    const settled: Promise<void> = turn.then(over, over);
    this.#last.set(name, settled);
    try {
      await unlessAborted(signal, before);
    } catch {
      throwIfAborted(signal);
    }
    await turn;
  }
}

type ArtifactStoreOptions = Omit<DownloadOptions, "signal" | "progress">;

/**
 * Downloads artifacts to files that are named by digest. Two apps with the same artifact download one after the other, so that a file has
 * one writer.
 */
export class ArtifactStore {
  protected readonly options: ArtifactStoreOptions;
  protected readonly mutex = new KeyedMutex();

  constructor(options: ArtifactStoreOptions) {
    this.options = options;
  }

  /** Downloads the artifact and passes the file's path to `use`. Deletes the file afterwards, unless `use` has moved it. */
  async with(release: DesiredRelease, io: StageIo, use: (file: string) => Promise<void>): Promise<void> {
    const sha256 = release.artifact_sha256;
    await this.mutex.run(sha256, io.signal, async () => {
      failpoint("download:before", "step");
      const file = await downloadArtifact({ sha256, size: release.artifact_size }, { ...this.options, ...io });
      failpoint("download:after", "step");
      await use(file);
      failpoint("download:used", "step");
      fs.rmSync(file, { force: true });
    });
  }

  /** Deletes all files except those with these digests and those that are being downloaded. */
  prune(keep_sha256: ReadonlySet<string>): void {
    const { directory } = this.options;
    if (!fs.existsSync(directory)) return;
    for (const name of fs.readdirSync(directory)) {
      const sha256 = name.replace(/\.part$/, "");
      if (!keep_sha256.has(sha256) && !this.mutex.has(sha256)) fs.rmSync(path.join(directory, name), { force: true });
    }
  }
}

/**
 * Caches the parts of container images, so that only new parts are downloaded for the next image. `prune` limits the cache to the
 * parts of releases that are kept.
 */
export class LayerStore extends ArtifactStore {
  file(sha256: string): string {
    return path.join(this.options.directory, sha256);
  }

  has({ sha256, size }: Artifact): boolean {
    return fs.statSync(this.file(sha256), { throwIfNoEntry: false })?.size === size;
  }

  /** Downloads the parts that are missing. `progress` counts only the bytes of these parts. */
  async fetch(parts: readonly Artifact[], io: StageIo): Promise<void> {
    makeDirectory(this.options.directory);
    const missing = [...new Map(parts.map((part) => [part.sha256, part])).values()].filter((part) => !this.has(part));
    const total = missing.reduce((sum, { size }) => sum + size, 0);
    let done = 0;
    for (const part of missing) {
      const progress = (bytes: number): void => io.progress(done + bytes, total);
      await this.mutex.run(part.sha256, io.signal, async () => {
        // Delete a file of the wrong size: its content cannot match the digest in its name.
        if (!this.has(part)) this.drop([part]);
        await downloadArtifact(part, { ...this.options, signal: io.signal, progress });
      });
      done += part.size;
    }
  }

  /** Deletes parts that the engine could not use; they are downloaded again. */
  drop(parts: readonly Artifact[]): void {
    for (const { sha256 } of parts) fs.rmSync(this.file(sha256), { force: true });
  }
}
