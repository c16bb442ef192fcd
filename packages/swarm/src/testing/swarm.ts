import { type Activity, type Clock, idleActivity, systemClock, type Timer } from "@roamfleet/clock";

export interface SwarmOptions {
  /** http or https address of the server, without a trailing slash. */
  url: string;
  clock?: Clock;
  /** Counts connects, requests and closes as work in flight, for tests with a simulated clock. */
  activity?: Activity;
  fetch?: typeof fetch;
  /** PEM of the only certificate authority that links trust; `fetch` is configured separately with `pinnedFetch` of the sdk. */
  ca?: string;
  /** Robots reconnect automatically after a lost link, like the agent: full jitter, 1 s to 60 s. */
  reconnects?: boolean;
}

/** A robot, as the swarm uses it. */
export interface Member {
  readonly connected: boolean;
  connect(): Promise<void>;
  beat(): void;
  /** Sends a simulated health measurement. */
  sendHealth(): void;
  barrier(): Promise<void>;
  close(): Promise<void>;
}

const HEARTBEAT_MS = 30_000;

/**
 * Simulated robots of one process and their shared state: one heartbeat timer serves all, so that thousands of robots cost little besides
 * their sockets.
 */
export class Swarm {
  /** Address of the server. It may be changed: the next connect uses the new address. */
  url: string;
  readonly clock: Clock;
  readonly activity: Activity;
  readonly fetch: typeof fetch;
  readonly reconnects: boolean;
  readonly tls: { ca?: string };
  readonly robots = new Set<Member>();
  /** Messages sent and received, without heartbeats: two equal readings around a barrier mean that nothing is in transit. */
  messages = 0;
  readonly #timers: Timer[] = [];
  #stopped = false;

  constructor(options: SwarmOptions) {
    this.url = options.url;
    this.clock = options.clock ?? systemClock;
    this.activity = options.activity ?? idleActivity;
    this.fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.reconnects = options.reconnects ?? false;
    this.tls = options.ca === undefined ? {} : { ca: options.ca };
    this.#timers.push(this.clock.every(HEARTBEAT_MS, () => this.robots.forEach((robot) => robot.beat())));
  }

  get stopped(): boolean {
    return this.#stopped;
  }

  /** Makes every robot send its health at this interval. */
  sendHealthEvery(ms: number): void {
    this.#timers.push(this.clock.every(ms, () => this.robots.forEach((robot) => robot.sendHealth())));
  }

  /** Resolves when everything that any robot or the server sent before has been received. */
  async barrier(): Promise<void> {
    await Promise.all([...this.robots].map((robot) => robot.barrier()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timers.forEach((timer) => timer.cancel());
    await Promise.all([...this.robots].map((robot) => robot.close()));
  }
}
