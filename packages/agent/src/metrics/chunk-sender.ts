import type { Clock, Timer } from "@roamfleet/clock";
import type { Samples } from "@roamfleet/protocol/link";
import type { ChunkSpool } from "./chunk-spool.ts";

/** Maximum wait for an acknowledgement. After that the chunk is sent again. */
const ACK_TIMEOUT_MS = 60_000;
/** Minimum free bytes in the send queue, so that samples do not delay reports. */
const ROOM_BYTES_MIN = 128 * 1024;

/** Where samples are sent: the current session. */
interface Outlet {
  /** Free bytes in the send queue. */
  room: () => number;
  /** Queues a message. Returns false if the queue is full. */
  send: (message: Samples) => boolean;
}

/** The methods of a spool that sending needs. */
export type ChunkQueue = Pick<ChunkSpool, "first" | "acknowledge">;

/**
 * Sends waiting chunks one at a time, so that the server can tell a repeated one by the last number. The next follows when the server has
 * stored the previous one.
 */
export class ChunkSender {
  readonly #queue: ChunkQueue;
  readonly #clock: Clock;
  #outlet: Outlet | undefined;
  #sent: { spool_id: string; seq: number } | undefined;
  #timeout: Timer | undefined;

  constructor(queue: ChunkQueue, clock: Clock) {
    this.#queue = queue;
    this.#clock = clock;
  }

  start(outlet: Outlet): void {
    this.stop();
    this.#outlet = outlet;
    this.pump();
  }

  stop(): void {
    this.#outlet = undefined;
    this.#forgetSent();
  }

  /** Sends the next chunk if none is under way and the send queue has room. */
  pump(): void {
    if (this.#outlet === undefined || this.#sent !== undefined || this.#outlet.room() < ROOM_BYTES_MIN) return;
    const next = this.#queue.first();
    if (next === undefined) return;
    const { spool_id, seq, chunk } = next;
    if (!this.#outlet.send({ type: "samples", spool_id, seq, chunk: chunk.toString("base64") })) return;
    this.#sent = { spool_id, seq };
    this.#timeout = this.#clock.setTimer(ACK_TIMEOUT_MS, () => {
      this.#forgetSent();
      this.pump();
    });
  }

  acknowledge(spool_id: string, seq: number): void {
    if (this.#sent?.spool_id !== spool_id || this.#sent.seq !== seq) return;
    this.#queue.acknowledge(spool_id, seq);
    this.#forgetSent();
    this.pump();
  }

  #forgetSent(): void {
    this.#sent = undefined;
    this.#timeout?.cancel();
  }
}
