import fs from "node:fs";
import path from "node:path";
import { type Artifact, type DownloadOptions, downloadArtifact } from "../download.ts";
import type { StageIo } from "../executor.ts";
import { KeyedMutex } from "../turns.ts";
import { makeDirectory } from "../../disk/write-atomically.ts";

export type LayerStoreOptions = Omit<DownloadOptions, "signal" | "progress">;

/**
 * Cache of image parts on the robot, by digest, so that the next image downloads only new parts. Two apps with the same part download one after the
 * other. Limited by `prune`: kept parts belong to a kept release.
 */
export class LayerStore {
  readonly #options: LayerStoreOptions;
  readonly #turns = new KeyedMutex();

  constructor(options: LayerStoreOptions) {
    this.#options = options;
  }

  file(sha256: string): string {
    return path.join(this.#options.directory, sha256);
  }

  has({ sha256, size }: Artifact): boolean {
    return fs.statSync(this.file(sha256), { throwIfNoEntry: false })?.size === size;
  }

  /** Downloads missing parts; `progress` counts only their bytes. Returns the number of downloaded parts. */
  async fetch(parts: readonly Artifact[], io: StageIo): Promise<number> {
    makeDirectory(this.#options.directory);
    const missing = [...new Map(parts.map((part) => [part.sha256, part])).values()].filter((part) => !this.has(part));
    const total = missing.reduce((sum, { size }) => sum + size, 0);
    let done = 0;
    for (const part of missing) {
      await this.#fetchOne(part, { signal: io.signal, progress: (bytes) => io.progress(done + bytes, total) });
      done += part.size;
    }
    return total;
  }

  async #fetchOne(part: Artifact, io: StageIo): Promise<void> {
    await this.#turns.take(part.sha256, io.signal, async () => {
      // A file of another size is invalid: its name is its digest.
      if (!this.has(part)) fs.rmSync(this.file(part.sha256), { force: true });
      await downloadArtifact(part, { ...this.#options, ...io });
    });
  }

  /** Deletes parts that the engine could not use; they are downloaded again. */
  drop(parts: readonly Artifact[]): void {
    for (const { sha256 } of parts) fs.rmSync(this.file(sha256), { force: true });
  }

  /** Deletes all parts except these, and except those that are being downloaded. */
  prune(keep_sha256: ReadonlySet<string>): void {
    if (!fs.existsSync(this.#options.directory)) return;
    for (const name of fs.readdirSync(this.#options.directory)) {
      const sha256 = name.replace(/\.part$/, "");
      if (!keep_sha256.has(sha256) && !this.#turns.has(sha256)) fs.rmSync(path.join(this.#options.directory, name), { force: true });
    }
  }
}
