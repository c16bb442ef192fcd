import type { Clock, Timer } from "@robofleet/clock";

/** So many are under way at a time as end within a second: each takes some 1 ms of CPU here and more at the other end, and a few round trips. */
export const UNDER_WAY_MAX = 256;
/** Of one turn of the event loop, some 8 ms: whoever else wants something waits no longer for them. */
export const BEGUN_PER_TURN_MAX = 8;
/** At least as often one begins, whoever comes and whatever becomes of those under way: who begins handshakes and stops in the middle keeps nobody out. */
export const BEGUN_EVERY_MS = 10;
/** While clients come, none begins sooner after the one before: as many a second as a node lets robots in, and half of the loop's time is theirs who connect. */
export const BEGUN_BESIDE_EVERY_MS = 2;
/** As many as a node has robots: the last of more would be past its patience before its turn, however fast the others are. */
export const LINE_MAX = 20_000;
/** An agent gives up after a minute, as most balancers do; whoever still waits then comes sooner by asking anew. */
export const PATIENCE_MS = 45_000;

/** Somebody who wants to shake hands. One of the two is called, once, unless it leaves before. */
export interface Arrival {
  /** Its turn has come. False: it is gone, and takes no place. */
  begin: () => boolean;
  /** The line is full, its turn did not come in time, or no hands are shaken any more. */
  sendAway: () => void;
}

/** When to look: the line decides what happens then. */
export interface Turns {
  clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Does the work once when the event loop has turned, as `setImmediate` does. */
  nextTurn: (work: () => void) => unknown;
}

/**
 * Handshakes of TLS, in the order in which their clients came. Thousands at once would all end late, many of them after
 * their clients' patience; so only some are under way, and the others wait, at the cost of a socket each.
 *
 * The event loop takes one connection each time that it turns. So while clients come few begin, and one in a turn at most: handshakes
 * make its turns long, the system's own queue of connections is full, and whoever finds it so comes seconds later, up to half a minute.
 */
export class HandshakeLine {
  readonly #turns: Turns;
  /** With the monotonic milliseconds at which they came; in this order. */
  readonly #line = new Map<Arrival, number>();
  #under_way = 0;
  #begun_at = -Infinity;
  #timer: Timer | undefined;
  /** Somebody has connected in this turn of the loop. */
  #connected = false;
  #turn_awaited = false;
  #closed = false;

  constructor(turns: Turns) {
    this.#turns = turns;
  }

  get under_way(): number {
    return this.#under_way;
  }

  get in_line(): number {
    return this.#line.size;
  }

  /** A client has connected: others may be behind it. */
  connected(): void {
    this.#connected = true;
    this.#awaitTurn();
  }

  /** Its handshake begins when its turn comes. */
  join(arrival: Arrival): void {
    if (this.#closed || this.#line.size >= LINE_MAX) return arrival.sendAway();
    this.#line.set(arrival, this.#turns.clock.monotonic());
    this.#awaitTurn();
    this.#wake();
  }

  /** It does not wait any more; nothing if it is not in the line. */
  leave(arrival: Arrival): void {
    this.#line.delete(arrival);
  }

  /** A handshake that began has ended, whichever way. */
  ended(): void {
    this.#under_way -= 1;
    this.#awaitTurn();
  }

  /** No handshake begins any more; whoever waits is sent away. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    const waiting = [...this.#line.keys()];
    this.#line.clear();
    for (const arrival of waiting) arrival.sendAway();
  }

  #awaitTurn(): void {
    if (this.#turn_awaited) return;
    this.#turn_awaited = true;
    this.#turns.nextTurn(() => {
      this.#turn_awaited = false;
      if (!this.#connected) return this.#beginSome();
      this.#connected = false;
      if (this.#under_way < UNDER_WAY_MAX && this.#hasNoneBegunFor(BEGUN_BESIDE_EVERY_MS)) this.#beginFirst();
      this.#awaitTurn();
    });
  }

  #hasNoneBegunFor(ms: number): boolean {
    return this.#turns.clock.monotonic() - this.#begun_at >= ms;
  }

  #beginSome(): void {
    for (let begun = 0; this.#line.size > 0 && this.#under_way < UNDER_WAY_MAX; begun += 1) {
      if (begun === BEGUN_PER_TURN_MAX) return this.#awaitTurn();
      this.#beginFirst();
    }
  }

  #beginFirst(): void {
    for (const [arrival] of this.#line) {
      this.#line.delete(arrival);
      this.#under_way += 1;
      if (arrival.begin()) {
        this.#begun_at = this.#turns.clock.monotonic();
        return;
      }
      this.#under_way -= 1;
    }
  }

  /** While somebody waits: begins one when none has begun for long, and sends away those who have waited too long. */
  #wake(): void {
    if (this.#line.size === 0 || this.#timer !== undefined) return;
    const now = this.#turns.clock.monotonic();
    this.#timer = this.#turns.clock.setTimer(Math.max(1, this.#begun_at + BEGUN_EVERY_MS - now), () => {
      this.#timer = undefined;
      this.#look();
      this.#wake();
    });
  }

  #look(): void {
    if (this.#hasNoneBegunFor(BEGUN_EVERY_MS)) this.#beginFirst();
    const now = this.#turns.clock.monotonic();
    for (const [arrival, since] of this.#line) {
      if (now - since < PATIENCE_MS) return;
      this.#line.delete(arrival);
      arrival.sendAway();
    }
  }
}
