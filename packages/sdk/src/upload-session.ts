import { fillPath, paths, type RouteName } from "@roamfleet/protocol/paths";
import { type Connection, RETRY_AFTER_SECONDS_MAX } from "./connection.ts";
import { ApiError } from "./errors.ts";
import { readJson } from "./incoming.ts";
import type { Body } from "./options.ts";

/** Bytes per request: small enough for proxies, large enough that the request overhead is negligible. */
const PART_BYTES = 32 * 1024 * 1024;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_LAST_MS = 15_000;
/** The upload fails if the server accepts no byte for this long, despite retries. */
const GIVE_UP_MS = 10 * 60_000;
const TUS = { "tus-resumable": "1.0.0" };

export interface UploadArguments {
  release_id: string;
  /** Size of the artifact in bytes. The server gets it before the content. */
  size: number;
  /**
   * Called with the number of bytes stored or in transit. The first call has the offset from which the upload resumes. The number decreases
   * if bytes were lost.
   */
  on_progress?: ((bytes_done: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Bytes of the artifact in a request: from `start` inclusive to `end` exclusive. */
export interface Part {
  start: number;
  end: number;
  /** Called with the position reached in the artifact. */
  on_progress: ((bytes_done: number) => void) | undefined;
}

/**
 * Sends one request and returns the response, also an error response. Throws Passing if there was no response. Throws any other error if a
 * retry is useless.
 */
export type SendRequest = (method: string, path: string, headers: Record<string, string>, part: Part | undefined) => Promise<Response>;

/**
 * Uploads a release's artifact in parts with tus 1.0. Resumes any earlier upload of the release at the server's offset. Retries with
 * increasing delays until no byte was accepted for ten minutes.
 */
export function uploadBy(connection: Connection, args: UploadArguments, send: SendRequest): Promise<Body<"getRelease">> {
  return new Session(connection, args, send).run();
}

/** Thrown for an error that a retry may fix. Contains the delay that the server requested, if any. */
export class Passing extends Error {
  readonly wait_ms: number | undefined;
  constructor(cause: Error) {
    super(cause.message, { cause });
    const seconds = cause instanceof ApiError ? cause.retry_after_seconds : undefined;
    this.wait_ms = seconds === undefined ? undefined : seconds * 1_000;
  }
}

/** Statuses that a retry may fix. In an upload in progress, 404 and 409 are added: another client has deleted or continued the upload. */
const PASSING = new Set([408, 423, 429, 500, 502, 503, 504]);
const PASSING_WITHIN = new Set([...PASSING, 404, 409]);

class Session {
  readonly #connection: Connection;
  readonly #args: UploadArguments;
  readonly #request: SendRequest;

  constructor(connection: Connection, args: UploadArguments, request: SendRequest) {
    this.#connection = connection;
    this.#args = args;
    this.#request = request;
  }

  async run(): Promise<Body<"getRelease">> {
    const { size, on_progress } = this.#args;
    let offset: number | undefined;
    let most = -1;
    let tries = 0;
    let moved_at = this.#connection.clock.monotonic();
    for (;;) {
      try {
        offset ??= await this.#ask();
        on_progress?.(offset);
        if (offset > most) [most, tries, moved_at] = [offset, 0, this.#connection.clock.monotonic()];
        if (offset === size) return await this.#release();
        offset = await this.#send(offset);
      } catch (error) {
        offset = undefined;
        await this.#wait(error, tries, moved_at);
        tries += 1;
      }
    }
  }

  /** Creates the upload or finds the existing one; returns its offset. */
  async #ask(): Promise<number> {
    const { size } = this.#args;
    const started = await this.#call("startUpload", "POST", { "upload-length": String(size) }, PASSING);
    const offset = offsetOf(started, size);
    const { body } = await readJson(started);
    if (offset < size || (body as Body<"getRelease">).data.artifact_state === "stored") return offset;
    // The server has stored all bytes but stopped before it verified them. A query of the offset makes it complete the upload.
    return offsetOf(await this.#call("startUpload", "HEAD", {}, PASSING_WITHIN), size);
  }

  async #send(offset: number): Promise<number> {
    const { size, on_progress } = this.#args;
    const end = Math.min(size, offset + PART_BYTES);
    const answer = await this.#call(
      "continueUpload",
      "PATCH",
      { "upload-offset": String(offset), "content-type": "application/offset+octet-stream" },
      PASSING_WITHIN,
      { start: offset, end, on_progress },
    );
    return offsetOf(answer, size);
  }

  async #release(): Promise<Body<"getRelease">> {
    const path = fillPath(paths.getRelease[1], { id: this.#args.release_id });
    return (await readJson(await this.#request("GET", path, {}, undefined))).body as Body<"getRelease">;
  }

  /** Throws Passing for a response that a retry may change, ApiError for any other error. */
  async #call(
    name: RouteName,
    method: string,
    headers: Record<string, string>,
    passing: ReadonlySet<number>,
    part?: Part,
  ): Promise<Response> {
    this.#args.signal?.throwIfAborted();
    const path = fillPath(paths[name][1], { id: this.#args.release_id });
    const answer = await this.#request(method, path, { ...TUS, ...headers }, part);
    if (answer.ok) return answer;
    const refusal = await readJson(answer).catch((error: unknown) => error);
    if (refusal instanceof ApiError && passing.has(answer.status)) throw new Passing(refusal);
    throw refusal;
  }

  /** Waits before the next attempt. Throws if a retry is pointless, or if no byte was accepted for GIVE_UP_MS. */
  async #wait(error: unknown, tries: number, moved_at: number): Promise<void> {
    if (!(error instanceof Passing)) throw error;
    const { clock, retries, on_retry } = this.#connection;
    const { signal } = this.#args;
    const cause = error.cause as Error;
    const backoff_ms = Math.min(BACKOFF_LAST_MS, BACKOFF_FIRST_MS * 2 ** Math.min(tries, 16)) * (0.5 + clock.random() / 2);
    const wait_ms = error.wait_ms === undefined ? backoff_ms : error.wait_ms + backoff_ms;
    const is_over = retries === 0 || clock.monotonic() - moved_at + wait_ms > GIVE_UP_MS;
    if (is_over || (error.wait_ms ?? 0) > RETRY_AFTER_SECONDS_MAX * 1_000) throw cause;
    on_retry({ wait_ms, error: cause });
    await clock.sleep(wait_ms, signal);
    signal?.throwIfAborted();
  }
}

/** Parses the upload's offset from the response. */
function offsetOf({ headers, status }: Response, size: number): number {
  const text = headers.get("upload-offset");
  const offset = Number(text);
  if (text === null || !Number.isInteger(offset) || offset < 0 || offset > size)
    throw new ApiError({
      status,
      headers,
      body: { error: { code: "http_error", message: "the server did not return the upload offset" } },
    });
  return offset;
}
