import { spawnSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const CHUNK_BYTES = [1024 * 1024, 4096, 1];

/** A separate disk that can be filled; undefined if no file system can be mounted. */
export class SmallDisk implements Disposable {
  readonly directory: string;
  readonly #ballast: string;

  private constructor(directory: string) {
    this.directory = directory;
    this.#ballast = path.join(directory, "ballast");
  }

  static mount(megabytes: number): SmallDisk | undefined {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-disk-"));
    const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", directory]);
    if (status === 0) return new SmallDisk(directory);
    rmSync(directory, { recursive: true });
    return undefined;
  }

  get free(): number {
    const { bavail, bsize } = statfsSync(this.directory);
    return bavail * bsize;
  }

  /** Fills the disk except for `leave` bytes. Can be called again after other files were deleted. */
  fill(leave = 0): void {
    const file = openSync(this.#ballast, "a");
    try {
      for (const bytes of CHUNK_BYTES) {
        const chunk = Buffer.alloc(bytes, 1);
        while (leave === 0 || this.free - leave >= bytes) if (!append(file, chunk)) break;
      }
    } finally {
      closeSync(file);
    }
  }

  /** Makes the disk read-only, as the kernel does after errors; false: writable again. */
  makeReadOnly(is_read_only = true): void {
    const { status, stderr } = spawnSync("mount", ["-o", `remount,${is_read_only ? "ro" : "rw"}`, this.directory], { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
  }

  /** Frees the space that `fill` used. */
  makeRoom(): void {
    rmSync(this.#ballast, { force: true });
  }

  [Symbol.dispose](): void {
    spawnSync("umount", ["-l", this.directory]);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Appends a chunk. Returns false if there is no space left. */
function append(file: number, chunk: Buffer): boolean {
  try {
    return writeSync(file, chunk) === chunk.length;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}
