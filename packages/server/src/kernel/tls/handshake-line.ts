import type { Clock, Timer } from "@roamfleet/clock";
import { AddressShares } from "../address-shares.ts";
import { networkOf } from "../networks.ts";

/**
 * Handshakes running at the same time: about as many as end within a second. Each takes some 1 ms of CPU here, more at the client, and a
 * few round trips.
 */
export const UNDER_WAY_MAX = 256;
/** Handshakes started per turn of the event loop. They take some 8 ms, which bounds the delay of other work. */
export const BEGUN_PER_TURN_MAX = 8;
/**
 * A handshake starts at least this often, regardless of load and of the running ones. So clients that stop in mid-handshake cannot block
 * others.
 */
export const BEGUN_EVERY_MS = 10;
/**
 * Minimum interval between handshakes while clients connect. It matches the rate at which a node admits robots, and leaves half of the
 * loop's time for accepting connections.
 */
export const BEGUN_BESIDE_EVERY_MS = 2;
/**
 * Length of the queue. A single network fills at most half of it: it never uses more places than it leaves free. Half is about the number of
 * robots of a node, which may all connect from one address.
 */
export const PLACES_MAX = 32_000;
/** An agent gives up after a minute, as most load balancers do. A client that waited this long is served sooner if it retries. */
export const PATIENCE_MS = 45_000;

/** A client that wants a handshake. One of the two callbacks is called, once, unless it leaves before. */
export interface Arrival {
  /** The client's address. */
  address: string;
  /** Starts the handshake. Returns false if the client is gone, which takes no slot. */
  begin: () => boolean;
  /** Turns it away: its network has no free slot in the queue, it waited too long, or the queue is closed. */
  sendAway: () => void;
}

/** Timers of the queue, replaced in tests. */
export interface Turns {
  clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Runs the work in the next turn of the event loop, as `setImmediate` does. */
  nextTurn: (work: () => void) => unknown;
}

interface InLine {
  /** Monotonic milliseconds. */
  since: number;
  network: string;
  release: () => void;
}

/**
 * Queues TLS handshakes: networks alternate, and each network's clients are served in order of arrival. If thousands ran concurrently, all
 * would end late, many after their client's timeout. So only some run, and the others wait at the cost of a socket each.
 *
 * The event loop accepts one connection per turn. Handshakes make turns long, and the kernel's backlog overflows: clients that find it full
 * retry seconds later, up to half a minute. So while clients connect, few handshakes start, and at most one per turn.
 */
export class HandshakeLine {
  readonly #turns: Turns;
  /** In order of arrival. */
  readonly #line = new Map<Arrival, InLine>();
  /** The same clients by network. The network that is served next comes first. */
  readonly #networks = new Map<string, Set<Arrival>>();
  readonly #places = new AddressShares(PLACES_MAX);
  #under_way = 0;
  #begun_at = -Infinity;
  #timer: Timer | undefined;
  /** A client connected in this turn of the loop. */
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

  /** Reports that a client connected: more may be in the backlog. */
  connected(): void {
    this.#connected = true;
    this.#awaitTurn();
  }

  /** Queues a client for its handshake. */
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

  /** Removes a client from the queue; no effect if it is not queued. */
  leave(arrival: Arrival): void {
    const place = this.#line.get(arrival);
    if (place === undefined) return;
    this.#line.delete(arrival);
    place.release();
    const of_network = this.#networks.get(place.network);
    of_network?.delete(arrival);
    if (of_network?.size === 0) this.#networks.delete(place.network);
  }

  /** Reports that a started handshake ended, with or without success. */
  ended(): void {
    this.#under_way -= 1;
    this.#awaitTurn();
  }

  /** Stops starting handshakes and turns away all queued clients. */
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

  /** Removes and returns the first client of the next network, which then moves to the end. */
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

  /** While clients wait: starts a handshake if none has started for BEGUN_EVERY_MS, and turns away those that waited too long. */
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
