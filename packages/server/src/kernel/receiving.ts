import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock, Timer } from "@robofleet/clock";

/** A JSON body has arrived whole within this time. */
export const JSON_BODY_TIMEOUT_MS = 15_000;
/** A streamed body may take hours, but never this long without a byte. */
export const STREAM_STALL_TIMEOUT_MS = 60_000;
/** What a refused client still sends is read for this long, so that it sees the answer rather than a reset. */
const REFUSED_DRAIN_MS = 10_000;
const CHECK_MS = 5_000;

interface Receiving {
  response: ServerResponse;
  timeout_ms: number | undefined;
  started: number;
  moved: number;
  bytes: number;
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

  /** Bounds a body: whole within `timeout_ms`, or, when that is undefined, never stalled. */
  watch(request: IncomingMessage, response: ServerResponse, timeout_ms: number | undefined): void {
    const now = this.#clock.monotonic();
    this.#bodies.set(request, { response, timeout_ms, started: now, moved: now, bytes: request.socket.bytesRead, answered: undefined });
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
    const { bytesRead } = request.socket;
    if (bytesRead !== body.bytes) body.moved = now;
    body.bytes = bytesRead;
    if (body.response.writableEnded) body.answered ??= now;
    if (body.answered !== undefined && body.response.statusCode >= 400 && now - body.answered >= REFUSED_DRAIN_MS) return true;
    return now - (body.timeout_ms === undefined ? body.moved : body.started) >= (body.timeout_ms ?? STREAM_STALL_TIMEOUT_MS);
  }
}

/** Tells a client that asked first (`Expect: 100-continue`) to send its body. Before this it can still be refused for nothing. */
export function allowBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.expect !== undefined && !response.headersSent) response.writeContinue();
}
