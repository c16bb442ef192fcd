import { createHash } from "node:crypto";
import { type Dirent } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import type { EngineLog } from "../log.ts";
import { BlobError, type BlobRange, type Blobs, type BlobStat, type ReceiveOptions, type Staged } from "./blobs.ts";
import { splitKey, splitPrefix } from "./keys.ts";

/**
 * Blobs as files: `<directory>/blobs/<owner>/<first two characters of the name>/<name>`. Uploads
 * under way lie in `<directory>/staging`, on the same file system, so that a rename makes them blobs.
 * One process at a time uses a directory: what is staged at start was left by a crash and is removed.
 */
export async function directoryBlobs(directory: string, options: { log: EngineLog }): Promise<Blobs> {
  const staging = join(directory, "staging");
  const root = join(directory, "blobs");
  const left = (await entriesOf(staging)).length;
  if (left > 0) options.log.info({ files: left }, "removing unfinished uploads");
  await rm(staging, { recursive: true, force: true });
  await mkdir(root, { recursive: true, mode: 0o700 });
  await mkdir(staging, { mode: 0o700 });
  await syncDirectory(directory);
  return new DirectoryBlobs(root, staging);
}

const ignore = (): void => {};

class DirectoryBlobs implements Blobs {
  readonly #root: string;
  readonly #staging: string;
  #received = 0;

  constructor(root: string, staging: string) {
    this.#root = root;
    this.#staging = staging;
  }

  async receive(stream: Readable, options: ReceiveOptions): Promise<Staged> {
    // It may break before we come to read it; without a listener that would end the process. Reading it then reports the error.
    stream.on("error", ignore);
    this.#received += 1;
    const path = join(this.#staging, `${this.#received}`);
    let handle: FileHandle | undefined;
    try {
      handle = await open(path, "wx", 0o600);
      const { size, sha256 } = await store(stream, handle, options);
      await handle.sync();
      await handle.close();
      return new StagedFile(path, size, sha256, (key) => this.#place(path, key));
    } catch (error) {
      await handle?.close().catch(ignore);
      await rm(path, { force: true });
      return refuse(error);
    } finally {
      stream.off("error", ignore);
    }
  }

  async read(key: string, range?: BlobRange): Promise<{ stream: Readable; size: number }> {
    const handle = await open(this.#path(key), "r").catch((error: unknown) => {
      throw isCode(error, "ENOENT") ? new BlobError("not_found", `no blob ${key}`, { cause: error }) : error;
    });
    try {
      const { size } = await handle.stat();
      if (range !== undefined && !(range.start >= 0 && range.start <= range.end && range.end < size)) {
        throw new BlobError("bad_range", `bytes ${range.start} to ${range.end} of a blob of ${size} bytes`);
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

  /** The bytes are on the disk already; after this their name is too. */
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

class StagedFile implements Staged {
  readonly size: number;
  readonly sha256: string;
  readonly #path: string;
  readonly #place: (key: string) => Promise<void>;
  #state: "staged" | "committed" | "discarded" = "staged";

  constructor(path: string, size: number, sha256: string, place: (key: string) => Promise<void>) {
    this.#path = path;
    this.size = size;
    this.sha256 = sha256;
    this.#place = place;
  }

  async commit(key: string): Promise<void> {
    if (this.#state !== "staged") throw new Error(`the upload is ${this.#state} already`);
    await this.#place(key);
    this.#state = "committed";
  }

  async discard(): Promise<void> {
    if (this.#state !== "staged") return;
    this.#state = "discarded";
    await rm(this.#path, { force: true });
  }
}

async function store(stream: Readable, handle: FileHandle, options: ReceiveOptions): Promise<{ size: number; sha256: string }> {
  const { max_bytes, expect, signal } = options;
  const hash = createHash("sha256");
  let size = 0;
  for await (const chunk of chunksOf(stream, signal)) {
    size += chunk.byteLength;
    if (size > max_bytes) throw new BlobError("too_large", `more than ${max_bytes} bytes`);
    if (expect?.size !== undefined && size > expect.size) throw new BlobError("mismatch", `more than the announced ${expect.size} bytes`);
    hash.update(chunk);
    for (let written = 0; written < chunk.byteLength;) written += (await handle.write(chunk, written)).bytesWritten;
  }
  const sha256 = hash.digest("hex");
  if (expect?.size !== undefined && size !== expect.size)
    throw new BlobError("mismatch", `${size} bytes came, ${expect.size} were announced`);
  if (expect?.sha256 !== undefined && sha256 !== expect.sha256)
    throw new BlobError("mismatch", `the bytes have sha256 ${sha256}, ${expect.sha256} was announced`);
  return { size, sha256 };
}

/** The stream's chunks, with every way of breaking off as `interrupted`. Does not destroy the stream when the reader stops, only when told to abort. */
async function* chunksOf(stream: Readable, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  const abort = (): void => void stream.destroy(new Error("the upload was aborted"));
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort, { once: true });
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false }))
      yield Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk as string);
  } catch (error) {
    throw new BlobError("interrupted", "the upload broke off", { cause: error });
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

async function statOf(path: string, key: string): Promise<BlobStat | undefined> {
  try {
    const { size, mtime } = await stat(path);
    return { key, size, stored_at: mtime };
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Nothing when the directory is not there (any more). */
async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    if (isCode(error, "ENOENT")) return [];
    throw error;
  }
}

/** A new name is durable only when its directory is. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Throws the error, as `no_space` when that is what it says: full disk, quota, or no inodes left. */
function refuse(error: unknown): never {
  if (isCode(error, "ENOSPC") || isCode(error, "EDQUOT"))
    throw new BlobError("no_space", "there is no space left for blobs", { cause: error });
  throw error;
}

const isCode = (error: unknown, code: string): boolean => error instanceof Error && "code" in error && error.code === code;
