import fs from "node:fs";
import path from "node:path";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { DesiredRelease } from "@roamfleet/protocol/link";
import { type DownloadOptions, downloadArtifact } from "./download.ts";
import type { StageIo } from "./executor.ts";
import { KeyedMutex } from "./turns.ts";

export type ArtifactStoreOptions = Omit<DownloadOptions, "signal" | "progress">;

/** Downloads by digest. Two apps with the same artifact download one after the other, so that a file has one writer. */
export class ArtifactStore {
  readonly #options: ArtifactStoreOptions;
  readonly #turns = new KeyedMutex();

  constructor(options: ArtifactStoreOptions) {
    this.#options = options;
  }

  /** Downloads the artifact, passes its path to `use` (which may move the file), then deletes it. */
  async with(release: DesiredRelease, io: StageIo, use: (file: string) => Promise<void>): Promise<void> {
    const sha256 = release.artifact_sha256;
    await this.#turns.take(sha256, io.signal, async () => {
      failpoint("download:before", "step");
      const file = await downloadArtifact({ sha256, size: release.artifact_size }, { ...this.#options, ...io });
      failpoint("download:after", "step");
      await use(file);
      failpoint("download:used", "step");
      fs.rmSync(file, { force: true });
    });
  }

  /** Deletes artifacts that no deployment in progress needs: partial files of aborted downloads, and bad artifacts. */
  prune(keep_sha256: ReadonlySet<string>): void {
    if (!fs.existsSync(this.#options.directory)) return;
    for (const name of fs.readdirSync(this.#options.directory)) {
      const sha256 = name.replace(/\.part$/, "");
      if (!keep_sha256.has(sha256) && !this.#turns.has(sha256)) fs.rmSync(path.join(this.#options.directory, name), { force: true });
    }
  }
}
