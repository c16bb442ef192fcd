import type { Clock, Timer } from "@roamfleet/clock";
import { FairQueue } from "../fair-queue.ts";
import { networkOf } from "../networks.ts";

/**
 * Maximum concurrent handshakes: about as many as end within a second. Each takes some 1 ms of CPU on this server, more on the client, and
 * a few round trips.
 */
export const RUNNING_MAX = 256;
/** Maximum handshakes started per turn of the event loop. They take some 8 ms, which bounds the delay of other work. */
export const STARTS_PER_TURN_MAX = 8;
/**
 * While clients are queued, a handshake starts at least this often, even under load and with RUNNING_MAX handshakes running. So clients
 * that stall in mid-handshake cannot block the others.
 */
export const START_INTERVAL_MS = 10;
/**
 * Minimum interval between handshakes while clients connect. It matches the rate at which a node admits robots, and leaves half of the
 * loop's time for accepting connections.
 */
export const CONNECTING_START_INTERVAL_MS = 2;
/**
 * Maximum queued clients. A network may use at most as many slots as are still free, so a single network fills at most half of the queue.
 * Half is about the number of robots of a node, which may all connect from one address.
 */
export const QUEUE_MAX = 32_000;
/**
 * A client that has waited this long is turned away. Agents and most load balancers time out after a minute, so the client is served sooner
 * if it retries.
 */
export const WAIT_MS_MAX = 45_000;

/**
 * A client that waits for its TLS handshake. Exactly one of the two callbacks is called, once, unless the client leaves the queue first.
 */
export interface Client {
  /** The client's address. */
  address: string;
  /** Whether the client states that it is a robot. */
  is_robot: boolean;
  /** Starts the handshake. Returns false if the client has disconnected. Then no slot is taken. */
  start: () => boolean;
  /** Turns the client away: its network has no free slot in the queue, it waited too long, or the queue is closed. */
  sendAway: () => void;
}

/** A client in the queue of its network. `since`: when it was queued, in monotonic milliseconds. */
type Queued = Client & { since: number };

/** Timers of the queue, replaced in tests. */
export interface QueueTimers {
  clock: Pick<Clock, "monotonic" | "setTimer">;
  /** Runs the work in the next turn of the event loop, as `setImmediate` does. */
  nextTurn: (work: () => void) => unknown;
}

/**
 * Queues TLS handshakes. Robots and other clients are served alternately, so that a person does not wait behind all robots of a site, and a
 * client that hides that it is a robot takes at most half of the starts. In both groups networks are served round robin, and the clients of
 * a network in order of arrival.
 *
 * If thousands of handshakes ran concurrently, all would end late, many after their client's timeout. So only RUNNING_MAX run. A queued client
 * costs only a socket.
 *
 * The event loop accepts one connection per turn. Handshakes make turns long, so that the kernel's backlog overflows. Clients that find the
 * backlog full retry seconds later, up to half a minute. So while clients connect, few handshakes start, and at most one per turn.
 */
export class TlsHandshakeQueue {
  readonly #timers: QueueTimers;
  readonly #robots = new FairQueue<Queued>();
  readonly #others = new FairQueue<Queued>();
  /** Whether the next start belongs to a robot, if one is queued. */
  #is_robots_turn = false;
  #running = 0;
  #started_at = -Infinity;
  #timer: Timer | undefined;
  /** True if a client connected in this turn of the event loop. */
  #connected = false;
  #turn_awaited = false;
  #closed = false;

  constructor(timers: QueueTimers) {
    this.#timers = timers;
  }

  get running(): number {
    return this.#running;
  }

  get queued(): number {
    return this.#robots.size + this.#others.size;
  }

  /** Reports that a client connected: more may be in the backlog. */
  connected(): void {
    this.#connected = true;
    this.#awaitTurn();
  }

  /** Queues a client for its handshake. The returned function removes it from the queue. */
  join(client: Client): () => void {
    const network = networkOf(client.address);
    const queue = client.is_robot ? this.#robots : this.#others;
    if (this.#closed || queue.sizeOf(network) >= QUEUE_MAX - this.queued) {
      client.sendAway();
      return () => {};
    }
    const queued = { ...client, since: this.#timers.clock.monotonic() };
    queue.push(network, queued);
    this.#awaitTurn();
    this.#wake();
    return () => queue.delete(queued);
  }

  /** Reports that a started handshake ended, with or without success. */
  ended(): void {
    this.#running -= 1;
    this.#awaitTurn();
  }

  /** Stops starting handshakes and turns away all queued clients. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#sendAwayWhile(() => true);
  }

  #awaitTurn(): void {
    if (this.#turn_awaited) return;
    this.#turn_awaited = true;
    this.#timers.nextTurn(() => {
      this.#turn_awaited = false;
      if (!this.#connected) return this.#startSome();
      this.#connected = false;
      if (this.#running < RUNNING_MAX && this.#hasNoneStartedFor(CONNECTING_START_INTERVAL_MS)) this.#startFirst();
      this.#awaitTurn();
    });
  }

  #hasNoneStartedFor(ms: number): boolean {
    return this.#timers.clock.monotonic() - this.#started_at >= ms;
  }

  #startSome(): void {
    for (let started = 0; this.queued > 0 && this.#running < RUNNING_MAX; started += 1) {
      if (started === STARTS_PER_TURN_MAX) return this.#awaitTurn();
      this.#startFirst();
    }
  }

  /** Starts the handshake of the first client that is still connected. */
  #startFirst(): void {
    for (let next = this.#take(); next !== undefined; next = this.#take()) {
      this.#running += 1;
      if (next.start()) {
        this.#started_at = this.#timers.clock.monotonic();
        return;
      }
      this.#running -= 1;
    }
  }

  /** Removes and returns the next client. */
  #take(): Queued | undefined {
    const [first, second] = this.#is_robots_turn ? [this.#robots, this.#others] : [this.#others, this.#robots];
    const next = first.take(() => true) ?? second.take(() => true);
    this.#is_robots_turn = next?.item.is_robot !== true;
    return next?.item;
  }

  #sendAwayWhile(isSentAway: (client: Queued) => boolean): void {
    for (const queue of [this.#robots, this.#others]) for (const client of queue.takeWhile(isSentAway)) client.sendAway();
  }

  /**
   * Schedules the next check while clients are queued. The check starts a handshake if none has started for START_INTERVAL_MS, and turns
   * away clients that waited too long.
   */
  #wake(): void {
    if (this.queued === 0 || this.#timer !== undefined) return;
    const now = this.#timers.clock.monotonic();
    this.#timer = this.#timers.clock.setTimer(Math.max(1, this.#started_at + START_INTERVAL_MS - now), () => {
      this.#timer = undefined;
      this.#check();
      this.#wake();
    });
  }

  #check(): void {
    if (this.#hasNoneStartedFor(START_INTERVAL_MS)) this.#startFirst();
    const late = this.#timers.clock.monotonic() - WAIT_MS_MAX;
    this.#sendAwayWhile(({ since }) => since <= late);
  }
}
