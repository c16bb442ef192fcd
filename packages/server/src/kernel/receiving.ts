import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock, Timer } from "@roamfleet/clock";

/** A JSON body must be complete within this time, plus a second for each JSON_BYTES_PER_SECOND_MIN bytes that have arrived. */
export const JSON_BODY_TIMEOUT_MS = 8_000;
const JSON_BYTES_PER_SECOND_MIN = 16 * 1024;
/** A streamed body may take days, but must deliver STREAM_WINDOW_BYTES_MIN in each window of this length. Any modem is faster. */
export const STREAM_WINDOW_MS = 10_000;
export const STREAM_WINDOW_BYTES_MIN = 8 * 1024;
/** After a refusal, the rest of the body is read for this long and up to this size, so that the client receives the response and no reset. */
const REFUSED_DRAIN_MS = 10_000;
const REFUSED_DRAIN_BYTES_MAX = 16 * 1024 * 1024;
/** Interval of the deadline checks. It is short, so that expired bodies end in small batches, as in http.ts. */
const CHECK_MS = 100;

/** `json`: the whole body has a deadline. `stream`: the body has a minimum rate. */
export type BodyKind = "json" | "stream";

interface Receiving {
  response: ServerResponse;
  kind: BodyKind;
  started: number;
  /** Bytes that the socket had read when the request arrived. */
  bytes_before: number;
  /**
   * Start of the current window in which a stream's rate is measured: the time of the start, and the bytes that the socket had read by
   * then.
   */
  window_at: number;
  window_bytes: number;
  /** Time of the response, and the bytes that the socket had read by then. */
  answered: { at: number; bytes: number } | undefined;
}

/**
 * Sets deadlines for request bodies in transit. Node's option `requestTimeout` is not used: it is one duration for all requests and would
 * abort a large upload over a slow connection. The timer runs only while a body is in transit.
 */
export class ReceivingBodies {
  readonly #clock: Clock;
  readonly #refuse: (response: ServerResponse) => void;
  readonly #bodies = new Map<IncomingMessage, Receiving>();
  #timer: Timer | undefined;

  /** `refuse` sends 408 if the response has not started. */
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

  /**
   * Call it when the response is sent. Reads and discards the rest of the body, until its end or its deadline, so that the client receives
   * the response.
   */
  forget(request: IncomingMessage): void {
    if (request.complete) this.#bodies.delete(request);
    // Discards the rest. Node does so automatically only if the body was never read.
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
    const { bytesRead } = request.socket;
    if (body.response.writableEnded) body.answered ??= { at: now, bytes: bytesRead };
    if (body.answered !== undefined && body.response.statusCode >= 400) {
      const { at, bytes } = body.answered;
      if (now - at >= REFUSED_DRAIN_MS || bytesRead - bytes >= REFUSED_DRAIN_BYTES_MAX) return true;
    }
    if (body.kind === "json") {
      const earned_ms = ((bytesRead - body.bytes_before) * 1_000) / JSON_BYTES_PER_SECOND_MIN;
      return now - body.started >= JSON_BODY_TIMEOUT_MS + earned_ms;
    }
    // If this server has not read all received bytes yet, it causes the delay, not the client.
    if (request.readableLength > 0 || bytesRead - body.window_bytes >= STREAM_WINDOW_BYTES_MIN) {
      body.window_at = now;
      body.window_bytes = bytesRead;
    }
    return now - body.window_at >= STREAM_WINDOW_MS;
  }
}

/** Sends "100 Continue" to a client that waits for it. Before that, the request can be refused without transferring the body. */
export function allowBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && !response.headersSent) response.writeContinue();
}
