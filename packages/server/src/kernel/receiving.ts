import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock, Timer } from "@roamfleet/clock";

/** A JSON body has arrived whole within this time, and a second more for each so many bytes that have come. */
export const JSON_BODY_TIMEOUT_MS = 8_000;
const JSON_BYTES_PER_SECOND_MIN = 16 * 1024;
/** A streamed body may take days, but never so long with less than so many bytes: slower than the slowest modem is no upload. */
export const STREAM_WINDOW_MS = 10_000;
export const STREAM_WINDOW_BYTES_MIN = 8 * 1024;
/** What a refused client still sends is read for this long, so that it sees the answer rather than a reset. */
const REFUSED_DRAIN_MS = 10_000;
/** Often, for the same reason as in http.ts: what has had its time is ended in small lots. */
const CHECK_MS = 100;

/** `json`: bounded as a whole; `stream`: as slow as the slowest line, and no slower. */
export type BodyKind = "json" | "stream";

interface Receiving {
  response: ServerResponse;
  kind: BodyKind;
  started: number;
  /** What the socket had read when the request came. */
  bytes_before: number;
  /** Since when, and from how many bytes on, the rate of a stream is measured. */
  window_at: number;
  window_bytes: number;
  answered: number | undefined;
}

/**
 * Request bodies on their way in, with a bound for each: Node's own `requestTimeout` is one number for all, and would cut
 * a large upload over a slow line. Only while bodies are on their way does a timer run.
 */
export class ReceivingBodies {
  readonly #clock: Clock;
  readonly #refuse: (response: ServerResponse) => void;
  readonly #bodies = new Map<IncomingMessage, Receiving>();
  #timer: Timer | undefined;

  /** `refuse` answers 408 on a response that has not begun. */
  constructor(clock: Clock, refuse: (response: ServerResponse) => void) {
    this.#clock = clock;
    this.#refuse = refuse;
  }

  watch(request: IncomingMessage, response: ServerResponse, kind: BodyKind): void {
    const now = this.#clock.monotonic();
    const { bytesRead } = request.socket;
    this.#bodies.set(request, {
      response,
      kind,
      started: now,
      bytes_before: bytesRead,
      window_at: now,
      window_bytes: bytesRead,
      answered: undefined,
    });
    this.#timer ??= this.#clock.every(CHECK_MS, () => this.#check());
  }

  /** The answer is out; what is left of the body is read to its end, or until its time is over, so that the client sees the answer. */
  forget(request: IncomingMessage): void {
    if (request.complete) this.#bodies.delete(request);
    // Node does so by itself only when nobody has begun to read.
    else request.resume();
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#bodies.clear();
  }

  #check(): void {
    const now = this.#clock.monotonic();
    for (const [request, body] of this.#bodies) {
      if (request.complete || request.destroyed) this.#bodies.delete(request);
      else if (this.#isOver(request, body, now)) {
        this.#bodies.delete(request);
        if (body.response.headersSent) request.socket.destroy();
        else this.#refuse(body.response);
      }
    }
    if (this.#bodies.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #isOver(request: IncomingMessage, body: Receiving, now: number): boolean {
    if (body.response.writableEnded) body.answered ??= now;
    if (body.answered !== undefined && body.response.statusCode >= 400 && now - body.answered >= REFUSED_DRAIN_MS) return true;
    const { bytesRead } = request.socket;
    if (body.kind === "json") {
      const earned_ms = ((bytesRead - body.bytes_before) * 1_000) / JSON_BYTES_PER_SECOND_MIN;
      return now - body.started >= JSON_BODY_TIMEOUT_MS + earned_ms;
    }
    // What waits here to be read is no fault of the client's.
    if (request.readableLength > 0 || bytesRead - body.window_bytes >= STREAM_WINDOW_BYTES_MIN) {
      body.window_at = now;
      body.window_bytes = bytesRead;
    }
    return now - body.window_at >= STREAM_WINDOW_MS;
  }
}

/** Tells a client that asked first (`Expect: 100-continue`) to send its body. Before this it can still be refused for nothing. */
export function allowBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && !response.headersSent) response.writeContinue();
}
