import { fillPath, paths, type RouteName } from "@robofleet/protocol/paths";
import { type Connection, RETRY_AFTER_SECONDS_MAX } from "./connection.ts";
import { ApiError } from "./errors.ts";
import { readJson } from "./incoming.ts";
import type { Body } from "./route-types.ts";

/** Of one request: small enough for the proxies in between, large enough that asking costs nothing. */
const PART_BYTES = 32 * 1024 * 1024;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_LAST_MS = 15_000;
/** A server that takes no byte for this long is not waited for any more. */
const GIVE_UP_MS = 10 * 60_000;
const TUS = { "tus-resumable": "1.0.0" };

export interface UploadArguments {
  release_id: string;
  /** Bytes of the artifact: the server is told before the first one. */
  size: number;
  /** Called with the bytes that the server has or that are on their way; begins where the upload goes on, and goes back when some were lost. */
  on_progress?: ((bytes_done: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/** Bytes of the artifact that a request carries: from `start` to before `end`. */
export interface Part {
  start: number;
  end: number;
  /** Called with the place in the artifact that was reached. */
  on_progress: ((bytes_done: number) => void) | undefined;
}

/** Sends one request; the answer may be an error. Throws Passing when none came, and what else there is when that is final. */
export type SendRequest = (method: string, path: string, headers: Record<string, string>, part: Part | undefined) => Promise<Response>;

/**
 * Uploads a release's artifact in parts, by tus 1.0. Goes on where any earlier upload to the release stopped:
 * the server knows how far it is. Tries again, with growing waits, until no byte was taken for ten minutes.
 */
export function uploadBy(connection: Connection, args: UploadArguments, send: SendRequest): Promise<Body<"getRelease">> {
  return new Session(connection, args, send).run();
}

/** An error of which the next try may see nothing, with the wait that the server asked for. */
export class Passing extends Error {
  readonly wait_ms: number | undefined;
  constructor(cause: Error) {
    super(cause.message, { cause });
    const seconds = cause instanceof ApiError ? cause.retry_after_seconds : undefined;
    this.wait_ms = seconds === undefined ? undefined : seconds * 1_000;
  }
}

/** Statuses that pass by themselves. In the middle of an upload others mean that somebody else goes on with it, or dropped it. */
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

  /** Starts the upload or finds the one there is; answers how far it is. */
  async #ask(): Promise<number> {
    const { size } = this.#args;
    const started = await this.#call("startUpload", "POST", { "upload-length": String(size) }, PASSING);
    const offset = offsetOf(started, size);
    const { body } = await readJson(started);
    if (offset < size || (body as Body<"getRelease">).data.artifact_state === "stored") return offset;
    // All of it is there, and the server ended before it had looked at it: asked how far it is, it finishes.
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

  /** Throws Passing for an answer that may be another one next time, ApiError for any other refusal. */
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

  /** Returns when it is time for another try. Throws what there is no point in trying again for, or no time left. */
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

/** How far the server says the upload is. */
function offsetOf({ headers, status }: Response, size: number): number {
  const text = headers.get("upload-offset");
  const offset = Number(text);
  if (text === null || !Number.isInteger(offset) || offset < 0 || offset > size)
    throw new ApiError({
      status,
      headers,
      body: { error: { code: "http_error", message: "the server does not say how far the upload is" } },
    });
  return offset;
}
