import { type FileHandle, mkdir, open, rename, rm, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { entriesOf, errorCode, syncDirectory } from "../../kernel/files.ts";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange, type Blobs, type BlobStat, type ReceiveOptions, splitKey, splitPrefix, type Staged } from "./blobs.ts";
import { DirectoryUploads, StagedFile } from "./directory-uploads.ts";
import { heard, ignore, measure, refuse, statOf, writeFully } from "./streams.ts";

/**
 * Stores blobs as files: `<directory>/blobs/<owner>/<first two characters of the name>/<name>`. Uploads in one request are stored in
 * `<directory>/staging`, and resumable uploads in `<directory>/uploads`. All are on one file system, so that a rename turns an upload into
 * a blob. Only one process at a time may use a directory. Opening it removes staged files left by a crash and keeps resumable uploads.
 */
export async function directoryBlobs(directory: string, options: { log: EngineLog }): Promise<Blobs> {
  const staging = join(directory, "staging");
  const root = join(directory, "blobs");
  const left = (await entriesOf(staging)).length;
  if (left > 0) options.log.info({ files: left }, "removing unfinished uploads");
  await rm(staging, { recursive: true, force: true });
  await mkdir(root, { recursive: true, mode: 0o700 });
  await mkdir(staging, { mode: 0o700 });
  const uploads = join(directory, "uploads");
  await mkdir(uploads, { recursive: true, mode: 0o700 });
  await syncDirectory(directory);
  return new DirectoryBlobs(root, staging, uploads);
}

class DirectoryBlobs extends DirectoryUploads implements Blobs {
  readonly #root: string;
  readonly #staging: string;
  #received = 0;

  constructor(root: string, staging: string, uploads: string) {
    super(uploads, (file, key) => this.#place(file, key));
    this.#root = root;
    this.#staging = staging;
  }

  async receive(stream: Readable, options: ReceiveOptions): Promise<Staged> {
    using _ = heard(stream);
    this.#received += 1;
    const path = join(this.#staging, `${this.#received}`);
    let handle: FileHandle | undefined;
    try {
      handle = await open(path, "wx", 0o600);
      const file = handle;
      const measured = await measure(stream, options, (chunk, position) => writeFully(file, chunk, position));
      await handle.sync();
      await handle.close();
      return new StagedFile(path, measured, (key) => this.#place(path, key));
    } catch (error) {
      await handle?.close().catch(ignore);
      await rm(path, { force: true });
      return refuse(error);
    }
  }

  async read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }> {
    const handle = await open(this.#path(key), "r").catch((error: unknown) => {
      throw errorCode(error) === "ENOENT" ? new BlobError("not_found", `no blob ${key}`, { cause: error }) : error;
    });
    try {
      const { size } = await handle.stat();
      if (range !== undefined && !(range.start >= 0 && range.start <= range.end && range.end < size)) {
        throw new BlobError("bad_range", `bytes ${range.start} to ${range.end} are outside of a blob of ${size} bytes`);
      }
      return { stream: handle.createReadStream(range ?? {}), size };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  async stat(key: string): Promise<BlobStat | undefined> {
    return await statOf(this.#path(key), key);
  }

  async delete(key: string): Promise<void> {
    await rm(this.#path(key), { force: true });
  }

  async *list(prefix: string): AsyncGenerator<BlobStat> {
    const only = splitPrefix(prefix);
    const owners = only === undefined ? (await entriesOf(this.#root)).map((entry) => entry.name) : [only];
    for (const owner of owners) {
      for (const fan of await entriesOf(join(this.#root, owner))) {
        for (const { name } of await entriesOf(join(this.#root, owner, fan.name))) {
          const key = `${owner}/${name}`;
          const found = await statOf(this.#path(key), key);
          if (found !== undefined) yield found;
        }
      }
    }
  }

  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#root);
    return bavail * bsize;
  }

  async close(): Promise<void> {}

  #path(key: string): string {
    const { owner, name } = splitKey(key);
    return join(this.#root, owner, name.slice(0, 2), name);
  }

  /** Renames a file, whose contents are already durable, to its blob path, and makes the new name durable. */
  async #place(staged: string, key: string): Promise<void> {
    const path = this.#path(key);
    const fan = dirname(path);
    try {
      const created = await mkdir(fan, { recursive: true, mode: 0o700 });
      await rename(staged, path);
      await syncDirectory(fan);
      if (created !== undefined) {
        await syncDirectory(dirname(fan));
        await syncDirectory(this.#root);
      }
    } catch (error) {
      refuse(error);
    }
  }
}
