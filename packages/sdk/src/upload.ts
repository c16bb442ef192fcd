import { createReadStream } from "node:fs";
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { pipeline } from "node:stream/promises";
import { Transform } from "node:stream";
import { fillPath, paths, type RouteName } from "@robofleet/protocol/paths";
import { type Connection, credentialHeaders, RETRY_AFTER_SECONDS_MAX, urlOf } from "./connection.ts";
import { ApiError, unreachable, Unreachable } from "./errors.ts";
import { readIncoming, readJson } from "./incoming.ts";
import type { Body } from "./route-types.ts";

/** Without a byte moving for this long, a request has ended. */
const IDLE_MS_MAX = 60_000;
/** Of one request: small enough for the proxies in between, large enough that asking costs nothing. */
const PART_BYTES = 32 * 1024 * 1024;
const BACKOFF_FIRST_MS = 500;
const BACKOFF_LAST_MS = 15_000;
/** A server that takes no byte for this long is not waited for any more. */
const GIVE_UP_MS = 10 * 60_000;
const TUS = { "tus-resumable": "1.0.0" };

export interface UploadArguments {
  release_id: string;
  /** Path of the file. */
  file: string;
  /** Its size in bytes: the server is told before the first one. */
  size: number;
  /** Called with the bytes that the server has or that are on their way; begins where the upload goes on, and goes back when some were lost. */
  on_progress?: ((bytes_done: number) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Uploads a file as a release's artifact in parts, by tus 1.0. Goes on where any earlier upload to the release stopped:
 * the server knows how far it is. Tries again, with growing waits, until no byte was taken for ten minutes.
 */
export async function upload(connection: Connection, args: UploadArguments): Promise<Body<"getRelease">> {
  const session = new Session(connection, args);
  try {
    return await session.run();
  } finally {
    session.close();
  }
}

/** An error of which the next try may see nothing, with the wait that the server asked for. */
class Passing extends Error {
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
  readonly #agent: HttpAgent | HttpsAgent;
  readonly #secure: boolean;

  constructor(connection: Connection, args: UploadArguments) {
    this.#connection = connection;
    this.#args = args;
    this.#secure = connection.base_url.startsWith("https:");
    this.#agent = this.#secure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  }

  close(): void {
    this.#agent.destroy();
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
    const { file, size, on_progress } = this.#args;
    const end = Math.min(size, offset + PART_BYTES);
    const answer = await this.#call(
      "continueUpload",
      "PATCH",
      { "upload-offset": String(offset), "content-type": "application/offset+octet-stream", "content-length": String(end - offset) },
      PASSING_WITHIN,
      (request) => pipeline(createReadStream(file, { start: offset, end: end - 1 }), counting(offset, on_progress), request),
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
    send?: (request: NodeJS.WritableStream) => Promise<void>,
  ): Promise<Response> {
    const path = fillPath(paths[name][1], { id: this.#args.release_id });
    const answer = await this.#request(method, path, { ...TUS, ...headers }, send);
    if (answer.ok) return answer;
    const refusal = await readJson(answer).catch((error: unknown) => error);
    if (refusal instanceof ApiError && passing.has(answer.status)) throw new Passing(refusal);
    throw refusal;
  }

  async #request(
    method: string,
    path: string,
    headers: Record<string, string>,
    send: ((request: NodeJS.WritableStream) => Promise<void>) | undefined,
  ): Promise<Response> {
    const connection = this.#connection;
    const { signal } = this.#args;
    signal?.throwIfAborted();
    const request = (this.#secure ? httpsRequest : httpRequest)(new URL(urlOf(connection, path)), {
      method,
      agent: this.#agent,
      headers: { ...credentialHeaders(connection, path), accept: "application/json", ...headers },
      ...connection.tls,
      ...(signal === undefined ? {} : { signal }),
      timeout: IDLE_MS_MAX,
    });
    request.on("timeout", () => request.destroy(new Unreachable(connection.base_url, "timeout")));
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      request.on("response", resolve);
      request.on("error", reject);
    });
    answered.catch(() => {});
    try {
      if (send === undefined) request.end();
      // A server that refuses answers before it has read all: then that answer counts, not the pipe it closed.
      else
        await Promise.race([answered, send(request).catch((error: unknown) => (isFileError(error) ? Promise.reject(error) : undefined))]);
      return await readIncoming(await answered);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (isFileError(error)) throw error;
      const gone = error instanceof Unreachable ? error : unreachable(connection.base_url, error);
      throw gone.passing ? new Passing(gone) : gone;
    } finally {
      if (!request.writableFinished || request.destroyed) request.destroy();
    }
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

/** An error about the file itself, such as one that was removed meanwhile. */
const isFileError = (error: unknown): error is Error => error instanceof Error && "path" in error && "syscall" in error;

function counting(offset: number, on_progress: ((bytes_done: number) => void) | undefined): Transform {
  let bytes_done = offset;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes_done += chunk.length;
      on_progress?.(bytes_done);
      done(null, chunk);
    },
  });
}
