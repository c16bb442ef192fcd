import { createHash, type Hash } from "node:crypto";
import fs, { type promises } from "node:fs";
import path from "node:path";
import type { Clock } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { Fetcher } from "../contract.ts";
import { makeDirectory, renameDurably } from "../disk/write-atomically.ts";
import { freeBytes } from "./durable-file.ts";
import { errorCode, errorMessage, failureOf, StepFailure, throwIfAborted } from "./failure.ts";
import { DISK_FREE_FLOOR_BYTES, type Timing } from "./limits.ts";
import { asksToRetryLater, RetryLater } from "./not-now.ts";

export interface Artifact {
  sha256: string;
  size: number;
}

export interface FetchOptions {
  fetcher: Fetcher;
  clock: Clock;
  timing: Timing;
  signal: AbortSignal;
  progress: (bytes_done: number, bytes_total: number) => void;
}

export interface DownloadOptions extends FetchOptions {
  directory: string;
}

const PROGRESS_INTERVAL_MS = 500;
const READ_CHUNK_BYTES = 1024 * 1024;
/** Destination of the bytes, usually a file. */
export interface PartFile {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  truncate(length: number): Promise<void>;
}

/** The bytes received so far, and their digest. */
export interface Part {
  handle: PartFile;
  bytes: number;
  hash: Hash;
}

/**
 * Downloads an artifact by its digest and returns the file's path. A partial file of an interruption or a crash is resumed by range. The digest over
 * the whole file decides, so a server that returns another range does no harm. After a wrong digest the download restarts once from the first byte.
 * Throws StepFailure (`download_failed`, `digest_mismatch`, `insufficient_disk`) or StepAborted.
 */
export async function downloadArtifact(artifact: Artifact, options: DownloadOptions): Promise<string> {
  if (!/^[0-9a-f]{64}$/.test(artifact.sha256)) throw new StepFailure("rejected_by_robot", "the release's digest is not a SHA-256 in hex");
  makeDirectory(options.directory);
  const done = path.join(options.directory, artifact.sha256);
  if (fs.existsSync(done)) return done;
  const file = `${done}.part`;
  try {
    await checkSpace(artifact, file, options.directory);
    await using handle = await promisesOpen(file);
    const part = await readPart(handle, artifact);
    await fetchWhole(part, artifact, options);
    await handle.sync();
  } catch (error) {
    throwIfAborted(options.signal);
    throw failureOf(error, "download_failed");
  }
  failpoint("download:before-rename", "file");
  renameDurably(file, done);
  return done;
}

/** Continues from the partial file until the digest is right; after a wrong one restarts once from the first byte. Throws StepFailure. */
export async function fetchWhole(part: Part, artifact: Artifact, options: FetchOptions): Promise<void> {
  for (const last of [false, true]) {
    await fillPart(part, artifact, options);
    if (part.hash.copy().digest("hex") === artifact.sha256) return;
    await restart(part);
    if (last) throw new StepFailure("digest_mismatch", `the artifact's bytes do not have the SHA-256 ${artifact.sha256}, in two attempts`);
  }
}

const promisesOpen = (file: string): Promise<promises.FileHandle> =>
  fs.promises.open(file, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);

async function checkSpace(artifact: Artifact, file: string, directory: string): Promise<void> {
  const there = fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const free = await freeBytes(directory);
  const needed = Math.max(0, artifact.size - there) + DISK_FREE_FLOOR_BYTES;
  if (free < needed)
    throw new StepFailure(
      "insufficient_disk",
      `the artifact needs ${needed} bytes (and ${DISK_FREE_FLOOR_BYTES} must stay free), ${free} are free`,
    );
}

async function readPart(handle: promises.FileHandle, artifact: Artifact): Promise<Part> {
  const part: Part = { handle, bytes: 0, hash: createHash("sha256") };
  const { size } = await handle.stat();
  if (size > artifact.size) {
    await handle.truncate(0);
    return part;
  }
  const chunk = Buffer.allocUnsafe(READ_CHUNK_BYTES);
  for (;;) {
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, part.bytes);
    if (bytesRead === 0) return part;
    part.hash.update(chunk.subarray(0, bytesRead));
    part.bytes += bytesRead;
  }
}

async function restart(part: Part): Promise<void> {
  await part.handle.truncate(0);
  part.bytes = 0;
  part.hash = createHash("sha256");
}

/** Retries until the file has the artifact's size. */
async function fillPart(part: Part, artifact: Artifact, options: FetchOptions): Promise<void> {
  const { clock, timing, signal } = options;
  /** Attempts without progress. All of them increase the backoff; only those with a response from the server count towards the limit. */
  let idle_tries = 0;
  let answered_tries = 0;
  let most = part.bytes;
  let last_error = "";
  while (part.bytes < artifact.size) {
    throwIfAborted(signal);
    let answered = false;
    let asked_wait_ms = 0;
    try {
      await fetchOnce(part, artifact, { ...options, on_answer: () => (answered = true) });
    } catch (error) {
      throwIfAborted(signal);
      if (error instanceof StepFailure || errorCode(error) === "ENOSPC") throw error;
      last_error = errorMessage(error);
      if (error instanceof RetryLater) asked_wait_ms = error.wait_ms;
    }
    if (part.bytes >= artifact.size) return;
    // Compared with the maximum so far: a server that restarts each time makes no progress.
    idle_tries = part.bytes > most ? 0 : idle_tries + 1;
    // Without a response (no network, or Retry-After), attempts are not limited: they end with the step's timeout.
    if (answered) answered_tries = part.bytes > most ? 0 : answered_tries + 1;
    most = Math.max(most, part.bytes);
    if (answered_tries >= timing.download_tries) {
      throw new StepFailure(
        "download_failed",
        `no byte of the artifact arrived in ${answered_tries} attempts; the last: ${last_error || "the response ended early"}`,
      );
    }
    const ceiling = Math.min(timing.retry_last_ms, timing.retry_first_ms * 2 ** Math.min(idle_tries, 16));
    // Up to one and a half times the wait that the server asked for, so that delayed robots do not return at the same time.
    await clock.sleep(Math.max(ceiling * (0.5 + clock.random() / 2), asked_wait_ms * (1 + clock.random() / 2)), signal);
  }
}

/** Sends one request and appends what it returns. */
async function fetchOnce(part: Part, artifact: Artifact, options: FetchOptions & { on_answer: () => void }): Promise<void> {
  const cut = new AbortController();
  const signal = AbortSignal.any([options.signal, cut.signal]);
  const { clock, timing } = options;
  const stalled = (): void => cut.abort(new Error(`nothing arrived for ${timing.download_stall_ms} ms`));
  let stall = clock.setTimer(timing.download_stall_ms, stalled);
  let reported_at = -Infinity;
  try {
    const response = await options.fetcher.get(`/agent/artifacts/${artifact.sha256}`, {
      signal,
      ...(part.bytes > 0 ? { range_start: part.bytes, if_range: `"${artifact.sha256}"` } : {}),
    });
    if (asksToRetryLater(response)) {
      await discardBody(response.body);
      throw new RetryLater(response, clock);
    }
    options.on_answer();
    if (response.status === 200 || response.status === 416) await restart(part);
    if (response.status !== 200 && response.status !== 206) {
      await discardBody(response.body);
      if (response.status === 416) return;
      throw new Error(`the server answered ${response.status}`);
    }
    for await (const chunk of response.body) {
      stall.cancel();
      // A body may notice its abort late: nothing is written after that.
      if (signal.aborted) throw signal.reason;
      if (part.bytes + chunk.length > artifact.size)
        throw new StepFailure("digest_mismatch", `the artifact is longer than the ${artifact.size} bytes that the release names`);
      await append(part, chunk);
      if (clock.monotonic() - reported_at >= PROGRESS_INTERVAL_MS || part.bytes === artifact.size) {
        reported_at = clock.monotonic();
        options.progress(part.bytes, artifact.size);
      }
      stall = clock.setTimer(timing.download_stall_ms, stalled);
    }
  } finally {
    stall.cancel();
  }
}

/** Reads a little, then stops: this ends the connection without an abort error, which would have no listener. */
export async function discardBody(body: AsyncIterable<Uint8Array>): Promise<void> {
  const reading = body[Symbol.asyncIterator]();
  await reading.next();
  await reading.return?.();
}

async function append(part: Part, chunk: Uint8Array): Promise<void> {
  let written = 0;
  while (written < chunk.length) {
    const { bytesWritten } = await part.handle.write(chunk, written, chunk.length - written, part.bytes + written);
    written += bytesWritten;
  }
  part.hash.update(chunk);
  part.bytes += chunk.length;
  failpoint("download:part-written", "file");
}
