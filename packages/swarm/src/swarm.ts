import { type Activity, type Clock, idleActivity, systemClock, type Timer } from "@robofleet/clock";

export interface SwarmOptions {
  /** http or https address of the server, without a slash at the end. */
  url: string;
  clock?: Clock;
  /** Counts connecting, requests and closing, for tests that own time. */
  activity?: Activity;
  fetch?: typeof fetch;
  /** PEM of the only certificate authority that links trust; `fetch` has its own, by `pinnedFetch` of the sdk. */
  ca?: string;
  /** Robots whose link breaks come back by themselves, like the agent: full jitter, 1 s to 60 s. */
  reconnects?: boolean;
}

/** What a swarm needs of its robots. */
export interface Member {
  readonly connected: boolean;
  connect(): Promise<void>;
  beat(): void;
  /** Health as the robot would measure it. */
  sendHealth(): void;
  barrier(): Promise<void>;
  close(): Promise<void>;
}

const HEARTBEAT_MS = 30_000;

/**
 * Simulated robots of one process and what they share: one timer beats for all of them, so that thousands cost thousands
 * of sockets and little else.
 */
export class Swarm {
  /** May change: the next connect goes there. */
  url: string;
  readonly clock: Clock;
  readonly activity: Activity;
  readonly fetch: typeof fetch;
  readonly reconnects: boolean;
  readonly tls: { ca?: string };
  readonly robots = new Set<Member>();
  /** Messages sent and received, heartbeats not counted: two equal readings around a barrier mean that nothing moves. */
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

  /** From now on every robot sends its health at this interval. */
  sendHealthEvery(ms: number): void {
    this.#timers.push(this.clock.every(ms, () => this.robots.forEach((robot) => robot.sendHealth())));
  }

  /** Resolves when everything that any robot or the server had sent each other before has been received. */
  async barrier(): Promise<void> {
    await Promise.all([...this.robots].map((robot) => robot.barrier()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timers.forEach((timer) => timer.cancel());
    await Promise.all([...this.robots].map((robot) => robot.close()));
  }
}
