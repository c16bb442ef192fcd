import { createHash, type Hash } from "node:crypto";
import fs, { type promises } from "node:fs";
import path from "node:path";
import { type ByteRate, type Clock, exponentialMs, timeLimit, IdleTimeout } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import type { FetchAnswer, Fetcher } from "../contract.ts";
import { retryAfterMs } from "../link/backoff.ts";
import { freeBytes, makeDirectory, renameDurably, errorText, errorCode } from "../disk/write-atomically.ts";
import { failureOf, StepFailure, throwIfAborted } from "./failure.ts";
import { DISK_FREE_FLOOR_BYTES, type Timing } from "./limits.ts";
import { hashPart, readAll } from "./byte-reader.ts";

/** HTTP statuses of a server that is busy, starting or stopping, or of a proxy in front of it. Requests with these statuses are retried. */
const RETRY_LATER_STATUSES = new Set([429, 502, 503, 504]);

/**
 * Returns the wait before a retry in milliseconds: a random half to all of the backoff. If the server asked for a wait, the result is at
 * least that wait times a random factor from 1 to 1.5, so that robots do not retry simultaneously.
 */
export const retryWaitMs = (clock: Clock, timing: Timing, failures: number, asked_ms = 0): number =>
  Math.max(
    exponentialMs(timing.retry_first_ms, timing.retry_last_ms, failures) * (0.5 + clock.random() / 2),
    asked_ms * (1 + clock.random() / 2),
  );

/** The server asked to retry later. `wait_ms` is the wait that it asked for, if any. */
export class RetryLater extends Error {
  readonly wait_ms: number;

  constructor({ status, headers }: FetchAnswer, clock: Clock) {
    super(`the server returned HTTP status ${status}`);
    this.wait_ms = retryAfterMs(headers.get("retry-after"), headers.get("date"), clock) ?? 0;
  }
}

interface FetchSmallOptions {
  fetcher: Fetcher;
  clock: Clock;
  signal: AbortSignal;
  /** Time limit for the complete response. */
  within_ms: number;
  bytes_max: number;
  /** Called when the server has responded without asking for a later retry. */
  on_answer?: () => void;
}

/**
 * Sends one signed GET and returns the complete response, which must be small. Throws RetryLater for RETRY_LATER_STATUSES, otherwise an
 * Error with the cause.
 */
export async function fetchSmall(path: string, options: FetchSmallOptions): Promise<Buffer> {
  const { fetcher, clock, within_ms, bytes_max } = options;
  using limit = timeLimit(clock, within_ms, new Error(`no complete response within ${within_ms} ms`), options.signal);
  const { signal } = limit;
  const answer = await fetcher.get(path, { signal });
  await requireAnswer(answer, clock);
  options.on_answer?.();
  if (answer.status !== 200) await refuseAnswer(answer);
  const bytes = await readAll(answer.body, bytes_max);
  // The body may end without an error although the signal was aborted.
  if (signal.aborted) throw signal.reason;
  return bytes;
}

/** Throws RetryLater if the status asks for a retry. */
async function requireAnswer(answer: FetchAnswer, clock: Clock): Promise<void> {
  if (!RETRY_LATER_STATUSES.has(answer.status)) return;
  await discardBody(answer.body);
  throw new RetryLater(answer, clock);
}

async function refuseAnswer({ status, body }: FetchAnswer): Promise<never> {
  await discardBody(body);
  throw new Error(`the server returned HTTP status ${status}`);
}

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
  /** Limits the rate of all downloads that share it. Absent: unlimited. */
  rate?: ByteRate | undefined;
}

export interface DownloadOptions extends FetchOptions {
  directory: string;
}

const PROGRESS_INTERVAL_MS = 500;
/** Destination of the bytes, usually a file. */
export interface PartFile {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesWritten: number }>;
  truncate(length: number): Promise<void>;
}

interface Part {
  handle: PartFile;
  bytes: number;
  hash: Hash;
}

/**
 * Downloads an artifact and returns the file's path. Resumes a partial file of an earlier attempt with a range request. Finally checks the
 * digest of the whole file, so a server that returns a wrong range does no harm. After a wrong digest, restarts once from the first byte.
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
    await using handle = await fs.promises.open(file, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
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

/** Completes the partial file. If its digest is wrong, restarts once from the first byte. Throws StepFailure. */
export async function fetchWhole(part: Part, artifact: Artifact, options: FetchOptions): Promise<void> {
  for (const last of [false, true]) {
    await fillPart(part, artifact, options);
    if (part.hash.copy().digest("hex") === artifact.sha256) return;
    await restart(part);
    if (last)
      throw new StepFailure("digest_mismatch", `the downloaded artifact did not have the SHA-256 ${artifact.sha256} in two attempts`);
  }
}

async function checkSpace(artifact: Artifact, file: string, directory: string): Promise<void> {
  const there = fs.statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  const free = await freeBytes(directory);
  const needed = Math.max(0, artifact.size - there) + DISK_FREE_FLOOR_BYTES;
  if (free < needed)
    throw new StepFailure(
      "insufficient_disk",
      `the artifact needs ${needed} bytes (and ${DISK_FREE_FLOOR_BYTES} must stay free), but only ${free} are free`,
    );
}

async function readPart(handle: promises.FileHandle, artifact: Artifact): Promise<Part> {
  const part: Part = { handle, bytes: 0, hash: createHash("sha256") };
  const { size } = await handle.stat();
  if (size > artifact.size) await handle.truncate(0);
  else part.bytes = await hashPart(handle, part.hash, size);
  return part;
}

async function restart(part: Part): Promise<void> {
  await part.handle.truncate(0);
  part.bytes = 0;
  part.hash = createHash("sha256");
}

/** Downloads until the file has the artifact's size, with retries. */
async function fillPart(part: Part, artifact: Artifact, options: FetchOptions): Promise<void> {
  const { clock, timing, signal } = options;
  /**
   * Consecutive attempts without progress. They increase the backoff. Only attempts with a response from the server also count towards the
   * limit.
   */
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
      last_error = errorText(error);
      if (error instanceof RetryLater) asked_wait_ms = error.wait_ms;
    }
    if (part.bytes >= artifact.size) return;
    // Compare with the maximum so far: a download that restarts from the first byte each time makes no progress.
    idle_tries = part.bytes > most ? 0 : idle_tries + 1;
    // Attempts without a response (no network) or with Retry-After are not limited in number. The step's timeout ends them.
    if (answered) answered_tries = part.bytes > most ? 0 : answered_tries + 1;
    most = Math.max(most, part.bytes);
    if (answered_tries >= timing.download_tries) {
      throw new StepFailure(
        "download_failed",
        `no data of the artifact was received in ${answered_tries} attempts; the last error: ${last_error || "the response ended early"}`,
      );
    }
    await clock.sleep(retryWaitMs(clock, timing, idle_tries, asked_wait_ms), signal);
  }
}

async function fetchOnce(part: Part, artifact: Artifact, options: FetchOptions & { on_answer: () => void }): Promise<void> {
  const cut = new AbortController();
  const signal = AbortSignal.any([options.signal, cut.signal]);
  const { clock, timing } = options;
  const stalled = new Error(`no data was received for ${timing.download_stall_ms} ms`);
  const idle = new IdleTimeout(clock, timing.download_stall_ms, () => cut.abort(stalled));
  let reported_at = -Infinity;
  try {
    const response = await options.fetcher.get(`/agent/artifacts/${artifact.sha256}`, {
      signal,
      ...(part.bytes > 0 ? { range_start: part.bytes, if_range: `"${artifact.sha256}"` } : {}),
    });
    await requireAnswer(response, clock);
    options.on_answer();
    if (response.status === 200 || response.status === 416) await restart(part);
    if (response.status === 416) return await discardBody(response.body);
    if (response.status !== 200 && response.status !== 206) await refuseAnswer(response);
    for await (const chunk of response.body) {
      idle.stop();
      // After an abort, the body may still yield a chunk. It must not be written.
      if (signal.aborted) throw signal.reason;
      if (part.bytes + chunk.length > artifact.size)
        throw new StepFailure("digest_mismatch", `the artifact is larger than the ${artifact.size} bytes that the release specifies`);
      await append(part, chunk);
      if (clock.monotonic() - reported_at >= PROGRESS_INTERVAL_MS || part.bytes === artifact.size) {
        reported_at = clock.monotonic();
        options.progress(part.bytes, artifact.size);
      }
      // While nothing is read, TCP makes the server wait.
      const wait_ms = options.rate?.spend(chunk.length, clock.monotonic()) ?? 0;
      if (wait_ms > 0) await clock.sleep(wait_ms, signal);
      idle.resume();
    }
  } finally {
    idle.stop();
  }
}

/** Ends a response that is not needed. Reads one chunk and stops, since an abort would cause an error without a listener. */
async function discardBody(body: AsyncIterable<Uint8Array>): Promise<void> {
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
