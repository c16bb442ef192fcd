import { type Bucket, type Clock, owe } from "@roamfleet/clock";
import { BUCKETS_MAX, RateLimit } from "../kernel/rate-limit.ts";

/** Reasons to pause reading of a socket. */
export const PauseReason = { queue: 1, budget: 2, rate: 4, log_rate: 8 } as const;
export type PauseReason = (typeof PauseReason)[keyof typeof PauseReason];

interface Pausable {
  pause(): void;
  resume(): void;
}

/** Pauses a socket while at least one reason applies, and resumes it when the last one is released. */
export class ReadValve {
  readonly #socket: Pausable;
  #held = 0;

  constructor(socket: Pausable) {
    this.#socket = socket;
  }

  get closed(): boolean {
    return this.#held !== 0;
  }

  isPausedFor(reason: PauseReason): boolean {
    return (this.#held & reason) !== 0;
  }

  pause(reason: PauseReason): void {
    if (this.#held === 0) this.#socket.pause();
    this.#held |= reason;
  }

  resume(reason: PauseReason): void {
    const before = this.#held;
    this.#held &= ~reason;
    if (before !== 0 && this.#held === 0) this.#socket.resume();
  }
}

/**
 * Maximum bytes of messages that wait for the database, over all links of a node. In memory, received and parsed, they take about five
 * times as much.
 */
export const WORK_BYTES_MAX = 32 * 1024 * 1024;

interface OrgWork {
  bytes: number;
  /** Links whose reading is paused. */
  held: Set<ReadValve>;
}

/**
 * Bounds the memory of pending messages of all links, and divides it between orgs with dynamic thresholds: an org may take as much as is
 * still free. One org gets half of the budget, two get a third each, and a new org always finds room. Links of an org above its share are
 * not read: their data stays on the robots' disks.
 */
export class WorkBudget {
  readonly #bytes_max: number;
  readonly #orgs = new Map<string, OrgWork>();
  #bytes = 0;

  constructor(bytes_max = WORK_BYTES_MAX) {
    this.#bytes_max = bytes_max;
  }

  /** Bytes that wait or are being processed. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of links whose reading is paused. */
  get held(): number {
    let held = 0;
    for (const org of this.#orgs.values()) held += org.held.size;
    return held;
  }

  take(org_id: string, valve: ReadValve, bytes: number): void {
    let org = this.#orgs.get(org_id);
    if (org === undefined) this.#orgs.set(org_id, (org = { bytes: 0, held: new Set() }));
    org.bytes += bytes;
    this.#bytes += bytes;
    if (org.bytes < this.#free || org.held.has(valve)) return;
    org.held.add(valve);
    valve.pause(PauseReason.budget);
  }

  release(org_id: string, bytes: number): void {
    const org = this.#orgs.get(org_id);
    if (org === undefined) return;
    org.bytes -= bytes;
    this.#bytes -= bytes;
    if (org.bytes <= 0) this.#orgs.delete(org_id);
    if (org.bytes <= this.#free / 2) releaseAll(org);
    // Bytes that one org releases raise the share of every org, so paused links of other orgs may resume.
    for (const other of this.#orgs.values()) if (other.held.size > 0 && other.bytes <= this.#free / 2) releaseAll(other);
  }

  get #free(): number {
    return this.#bytes_max - this.#bytes;
  }
}

function releaseAll(org: OrgWork): void {
  const valves = [...org.held];
  org.held.clear();
  for (const valve of valves) valve.resume(PauseReason.budget);
}

/** Pending messages of one robot at which the server stops reading its socket. */
export const WAITING_MAX = 32;
/** The same limit in bytes: one log flush is about 256 KiB. */
export const WAITING_BYTES_MAX = 1024 * 1024;

/**
 * Processes one robot's messages in order. Pauses reading while too many messages of the robot or its org are pending: the robot keeps
 * further ones on its disk. After a message fails, no further one is processed, because acknowledging a later report would also acknowledge
 * the failed one.
 */
export class WorkQueue {
  readonly #valve: ReadValve;
  readonly #budget: WorkBudget;
  readonly #org_id: string;
  #waiting = 0;
  #bytes = 0;
  #failed = false;
  #tail: Promise<void> = Promise.resolve();

  constructor(valve: ReadValve, budget: WorkBudget, org_id: string) {
    this.#valve = valve;
    this.#budget = budget;
    this.#org_id = org_id;
  }

  /** `cost`: bytes that the message takes while pending. */
  add(cost: number, work: () => Promise<void>, failed: (error: unknown) => void): void {
    this.#waiting += 1;
    this.#bytes += cost;
    if (this.#waiting >= WAITING_MAX || this.#bytes >= WAITING_BYTES_MAX) this.#valve.pause(PauseReason.queue);
    this.#budget.take(this.#org_id, this.#valve, cost);
    this.#tail = this.#tail.then(() => this.#perform(work, failed)).then(() => this.#done(cost));
  }

  async #perform(work: () => Promise<void>, failed: (error: unknown) => void): Promise<void> {
    if (this.#failed) return;
    try {
      await work();
    } catch (error) {
      this.#failed = true;
      failed(error);
    }
  }

  #done(cost: number): void {
    this.#waiting -= 1;
    this.#bytes -= cost;
    if (this.#waiting <= WAITING_MAX / 4 && this.#bytes <= WAITING_BYTES_MAX / 4) this.#valve.resume(PauseReason.queue);
    this.#budget.release(this.#org_id, cost);
  }
}

/**
 * Token buckets of frames. A frame costs one token, and one more per KiB, or per 16 KiB for data of a stream. So a robot may send 10 MiB of
 * messages or 10,000 frames a second, an org five times as much. Measured, 10,000 tokens take 2–5% of a core.
 */
export const LINK_FRAMES = { per_minute: 600_000, burst: 32_768 } as const;
export const ORG_FRAMES = { per_minute: 3_000_000, burst: 131_072 } as const;
/** Tokens that opening a link costs: a robot may open 20 a second. Admitting one takes 4 ms of CPU and two transactions. */
export const LINK_OPEN_COST = 500;
/** Maximum buckets of robots. It bounds their memory if `robots_max` is high. */
const ROBOT_BUCKETS_MAX = 1_000_000;
/** Longest pause of a link. If its bucket is still in debt then, the next frame pauses it again. */
const PAUSE_MS_MAX = 1_000;

/** A robot's link or a viewer's socket. */
export interface RateLimited {
  readonly org_id: string;
  /** Set for links, absent for viewers. A link's bucket belongs to the robot, so that the debt remains when the robot reconnects. */
  readonly robot_id?: string;
  readonly valve: ReadValve;
  /** Token bucket of the robot or the viewer's socket. */
  frames: Bucket | undefined;
}

/**
 * Limits the frame rate of each robot, viewer and org. A socket is not read while its bucket or its org's is in debt. Frames that arrived
 * with the last chunk are still processed and added to the debt.
 */
export class FrameRateLimiter {
  readonly #clock: Pick<Clock, "monotonic" | "setTimer">;
  readonly #orgs: RateLimit;
  readonly #robots: RateLimit;

  /** `robots_max`: robots that may be connected at the same time. */
  constructor(clock: Pick<Clock, "monotonic" | "setTimer">, robots_max = 0) {
    this.#clock = clock;
    this.#orgs = new RateLimit(clock, "frames", ORG_FRAMES);
    // Twice `robots_max`, because robots that disconnect keep their buckets while others connect.
    const robots = Math.max(BUCKETS_MAX, Math.min(ROBOT_BUCKETS_MAX, 2 * robots_max));
    this.#robots = new RateLimit(clock, "frames", LINK_FRAMES, robots);
  }

  /** Charges a robot for a new link. If the robot is in debt, charges nothing and returns the milliseconds until it may open one. */
  open(robot_id: string): number {
    const owed_ms = this.#robots.owe(robot_id, 0);
    if (owed_ms === 0) this.#robots.owe(robot_id, LINK_OPEN_COST);
    return owed_ms;
  }

  take(link: RateLimited, tokens: number): void {
    const now = this.#clock.monotonic();
    link.frames ??= link.robot_id === undefined ? { tokens: LINK_FRAMES.burst, at: now } : this.#robots.bucketOf(link.robot_id);
    const owed_ms = Math.max(owe(link.frames, LINK_FRAMES, tokens, now), this.#orgs.owe(link.org_id, tokens));
    if (owed_ms <= 0 || link.valve.isPausedFor(PauseReason.rate)) return;
    link.valve.pause(PauseReason.rate);
    this.#clock.setTimer(Math.min(PAUSE_MS_MAX, owed_ms), () => link.valve.resume(PauseReason.rate));
  }
}
