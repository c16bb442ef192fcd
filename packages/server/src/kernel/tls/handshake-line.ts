import type { Clock, Timer } from "@roamfleet/clock";
import { AddressShares } from "../address-shares.ts";
import { networkOf } from "../networks.ts";

/** So many are under way at a time as end within a second: each takes some 1 ms of CPU here and more at the other end, and a few round trips. */
export const UNDER_WAY_MAX = 256;
/** Of one turn of the event loop, some 8 ms: whoever else wants something waits no longer for them. */
export const BEGUN_PER_TURN_MAX = 8;
/** At least as often one begins, whoever comes and whatever becomes of those under way: who begins handshakes and stops in the middle keeps nobody out. */
export const BEGUN_EVERY_MS = 10;
/** While clients come, none begins sooner after the one before: as many a second as a node lets robots in, and half of the loop's time is theirs who connect. */
export const BEGUN_BESIDE_EVERY_MS = 2;
/** Of the line. One network alone gets half, as each gets as many as are free: about as many as a node has robots, all behind one address. */
export const PLACES_MAX = 32_000;
/** An agent gives up after a minute, as most balancers do; whoever still waits then comes sooner by asking anew. */
export const PATIENCE_MS = 45_000;

/** Somebody who wants to shake hands. One of the two is called, once, unless it leaves before. */
export interface Arrival {
  /** Where it comes from. */
  address: string;
  /** Its turn has come. False: it is gone, and takes no place. */
  begin: () => boolean;
  /** Its network has no place in the line, its turn did not come in time, or no hands are shaken any more. */
  sendAway: () => void;
}

/** When to look: the line decides what happens then. */
export interface Turns {
  clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Does the work once when the event loop has turned, as `setImmediate` does. */
  nextTurn: (work: () => void) => unknown;
}

interface InLine {
  /** Monotonic milliseconds. */
  since: number;
  network: string;
  release: () => void;
}

/**
 * Handshakes of TLS, one of each network in turn, and of a network in the order in which its clients came. Thousands at once would all end late, many of them after
 * their clients' patience; so only some are under way, and the others wait, at the cost of a socket each.
 *
 * The event loop takes one connection each time that it turns. So while clients come few begin, and one in a turn at most: handshakes
 * make its turns long, the system's own queue of connections is full, and whoever finds it so comes seconds later, up to half a minute.
 */
export class HandshakeLine {
  readonly #turns: Turns;
  /** In the order in which they came. */
  readonly #line = new Map<Arrival, InLine>();
  /** The same by network; the one whose turn is next stands first. */
  readonly #networks = new Map<string, Set<Arrival>>();
  readonly #places = new AddressShares(PLACES_MAX);
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
    const { address } = arrival;
    if (this.#closed || !this.#places.hasRoom(address)) return arrival.sendAway();
    const network = networkOf(address);
    this.#line.set(arrival, { since: this.#turns.clock.monotonic(), network, release: this.#places.take(address) });
    const of_network = this.#networks.get(network);
    if (of_network === undefined) this.#networks.set(network, new Set([arrival]));
    else of_network.add(arrival);
    this.#awaitTurn();
    this.#wake();
  }

  /** It does not wait any more; nothing if it is not in the line. */
  leave(arrival: Arrival): void {
    const place = this.#line.get(arrival);
    if (place === undefined) return;
    this.#line.delete(arrival);
    place.release();
    const of_network = this.#networks.get(place.network);
    of_network?.delete(arrival);
    if (of_network?.size === 0) this.#networks.delete(place.network);
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
    for (const arrival of this.#line.keys()) {
      this.leave(arrival);
      arrival.sendAway();
    }
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
    for (let arrival = this.#takeFirst(); arrival !== undefined; arrival = this.#takeFirst()) {
      this.#under_way += 1;
      if (arrival.begin()) {
        this.#begun_at = this.#turns.clock.monotonic();
        return;
      }
      this.#under_way -= 1;
    }
  }

  /** The first of the network whose turn it is, which is then the last to have another. */
  #takeFirst(): Arrival | undefined {
    for (const [network, of_network] of this.#networks) {
      const [arrival] = of_network;
      this.#networks.delete(network);
      this.#networks.set(network, of_network);
      if (arrival !== undefined) this.leave(arrival);
      return arrival;
    }
    return undefined;
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
    for (const [arrival, { since }] of this.#line) {
      if (now - since < PATIENCE_MS) return;
      this.leave(arrival);
      arrival.sendAway();
    }
  }
}
