import { Readable } from "node:stream";
import type { Timer } from "@roamfleet/clock";
import type { Caller, HashedProof } from "../../kernel/caller.ts";
import type { Coalescer } from "./coalesce.ts";
import { seenBy } from "./reach.ts";
import { frame, type Ring } from "./ring.ts";

/**
 * Characters passed to the socket at a time. For a client that does not read, the server buffers at most twice this, plus the kernel's
 * buffers.
 */
const CHUNK_CHARACTERS = 16 * 1024;
/** Time after which a browser reconnects when the stream ends. */
export const RETRY_MS = 2_000;

/** Where a reader starts: at new changes, or after the last event that its client received earlier. */
interface Beginning {
  /** The reader gets the changes after the one with this number. */
  after: number;
  /** Whether the client reconnected and gets all changes that it missed. */
  resumed: boolean;
  /** Whether the client reconnected, but changes that it missed are no longer available. */
  lost: boolean;
}

interface ReaderOptions {
  caller: Caller;
  held: HashedProof;
  /** Set only if the client requested coalesced changes. */
  coalescer?: Coalescer | undefined;
}

/**
 * One open event stream. It has no queue, only a position in the ring. If the change at its position has been overwritten, a
 * slow reader gets `lost` once and continues with new changes.
 */
export class Reader extends Readable {
  readonly held: HashedProof;
  readonly #ring: Ring;
  #caller: Caller;
  readonly #coalescer: Coalescer | undefined;
  #timer: Timer | undefined;
  #next = 0;
  #wanted = false;
  #begun = false;
  #ended = false;
  /** Whether to send `lost` next, because changes were missed or the permissions changed. */
  #lost = false;

  constructor(ring: Ring, { caller, held, coalescer }: ReaderOptions) {
    super({ highWaterMark: CHUNK_CHARACTERS });
    this.#ring = ring;
    this.#caller = caller;
    this.held = held;
    this.#coalescer = coalescer;
    // Ignore errors of the stream: they mean that the client disconnected.
    this.on("error", () => {});
  }

  get caller(): Caller {
    return this.#caller;
  }

  /** Updates the caller's permissions. If they changed, sends `lost`, because the client may now show too much or too little. */
  becomes(caller: Caller): void {
    if (caller === this.#caller) return;
    const [before, now] = [this.#caller, caller].map(({ grants, limit }) => JSON.stringify([grants, limit]));
    this.#caller = caller;
    if (before === now) return;
    this.#lost = true;
    this.wake();
  }

  /** Sends `ready` and starts. Does nothing if the reader has ended meanwhile. */
  begin({ after, resumed, lost }: Beginning): void {
    if (this.#ended) return;
    this.#next = after + 1;
    this.#lost ||= lost;
    this.#begun = true;
    this.#push(`retry: ${RETRY_MS}\n\n${frame(this.#ring.idOf(after), "ready", { resumed })}`);
    this.wake();
  }

  /** Sends new changes, if there are any. */
  wake(): void {
    if (!this.#isReady()) return;
    const wait_ms = this.#waitMs();
    if (wait_ms === 0) return this.#pump();
    this.#timer ??= this.#coalescer?.clock.setTimer(wait_ms, () => {
      this.#timer = undefined;
      if (this.#isReady()) this.#pump();
    });
  }

  /**
   * Sends pending changes, and then a heartbeat if none are left. The heartbeat contains the ring's position: a reader that sees few of the
   * changes resumes from there when it reconnects.
   */
  beat(): void {
    if (this.#isReady()) this.#pump();
    if (this.#isReady() && this.#next > this.#ring.position) this.#push(frame(this.#ring.idOf(this.#ring.position), "beat", {}));
  }

  /** Sends the reason and ends the stream. Unread changes are dropped. */
  finish(code: string, message: string): void {
    if (this.#ended || this.destroyed) return;
    this.#ended = true;
    this.push(frame(undefined, "end", { code, message }));
    this.push(null);
  }

  override _read(): void {
    this.#wanted = true;
    this.wake();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#timer?.cancel();
    done(error);
  }

  #isReady(): boolean {
    return this.#wanted && this.#begun && !this.#ended;
  }

  /**
   * Returns the milliseconds until coalesced changes may be sent. Returns 0 if there are none, or if the ring would overwrite some of them
   * by then.
   */
  #waitMs(): number {
    if (this.#coalescer === undefined || this.#lost || !this.#ring.has(this.#next)) return 0;
    if (this.#next > this.#ring.position || this.#ring.isHalfFull(this.#next)) return 0;
    return this.#coalescer.waitMs();
  }

  #pump(): void {
    while (this.#wanted) {
      const text = this.#take();
      if (text === "") return;
      this.#push(text);
    }
  }

  /** Returns the frames to send next, about CHUNK_CHARACTERS at most. Empty if there are none. */
  #take(): string {
    const ring = this.#ring;
    let text = "";
    if (this.#lost || !ring.has(this.#next)) {
      this.#lost = false;
      this.#next = ring.position + 1;
      text = frame(ring.idOf(ring.position), "lost", {});
    }
    if (this.#coalescer !== undefined) return text + this.#takeCoalesced(this.#coalescer);
    while (this.#next <= ring.position && text.length < CHUNK_CHARACTERS) {
      const placed = ring.at(this.#next);
      const seen = placed === undefined ? undefined : seenBy(this.#caller, placed);
      if (seen !== undefined) text += ring.frameOf(this.#next, seen);
      this.#next += 1;
    }
    return text;
  }

  /** Returns all new changes in one message, whose length is bounded by the coalescer. */
  #takeCoalesced(coalescer: Coalescer): string {
    const ring = this.#ring;
    const seen = ring.from(this.#next).flatMap((placed) => seenBy(this.#caller, placed) ?? []);
    this.#next = ring.position + 1;
    const changes = coalescer.take(seen);
    return changes.length === 0 ? "" : frame(ring.idOf(ring.position), "changes", { changes });
  }

  #push(text: string): void {
    this.#wanted = this.push(text) && this.#wanted;
  }
}
