import fs from "node:fs";
import path from "node:path";
import { type Artifact, type DownloadOptions, downloadArtifact } from "../download.ts";
import type { StageIo } from "../executor.ts";
import { Turns } from "../turns.ts";
import { makeDirectory } from "../../disk/write-atomically.ts";

export type LayerStoreOptions = Omit<DownloadOptions, "signal" | "progress">;

/**
 * Parts of images on the robot, by digest, so that the next image fetches only what is new in it. Two apps that want the
 * same part take turns. Bounded by `prune`: what is kept belongs to a release that is kept.
 */
export class LayerStore {
  readonly #options: LayerStoreOptions;
  readonly #turns = new Turns();

  constructor(options: LayerStoreOptions) {
    this.#options = options;
  }

  file(sha256: string): string {
    return path.join(this.#options.directory, sha256);
  }

  has({ sha256, size }: Artifact): boolean {
    return fs.statSync(this.file(sha256), { throwIfNoEntry: false })?.size === size;
  }

  /** Fetches what is not there yet; `progress` counts the bytes of those parts only. Answers how many that were. */
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
      // A file of another size is none of ours: its name is its digest.
      if (!this.has(part)) fs.rmSync(this.file(part.sha256), { force: true });
      await downloadArtifact(part, { ...this.#options, ...io });
    });
  }

  /** Deletes what the engine could not use: it is fetched again. */
  drop(parts: readonly Artifact[]): void {
    for (const { sha256 } of parts) fs.rmSync(this.file(sha256), { force: true });
  }

  /** Deletes everything but these, and but what is being fetched. */
  prune(keep_sha256: ReadonlySet<string>): void {
    if (!fs.existsSync(this.#options.directory)) return;
    for (const name of fs.readdirSync(this.#options.directory)) {
      const sha256 = name.replace(/\.part$/, "");
      if (!keep_sha256.has(sha256) && !this.#turns.has(sha256)) fs.rmSync(path.join(this.#options.directory, name), { force: true });
    }
  }
}
