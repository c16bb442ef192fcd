import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "@roamfleet/clock";
import { FairQueue } from "../kernel/fair-queue.ts";
import { networkOf } from "../kernel/networks.ts";

/**
 * Divides a number of slots between networks with dynamic thresholds: each network may take as many slots as are still free. One network
 * gets half of the slots, two get a third each, and a new network always finds one.
 */
export class AddressShares {
  readonly #places: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  constructor(places: number) {
    this.#places = places;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Returns whether an address may take one more slot. */
  hasRoom(address: string): boolean {
    return (this.#held.get(networkOf(address)) ?? 0) < this.#places - this.#taken;
  }

  /** Takes a slot. The returned function releases it; further calls have no effect. */
  take(address: string): () => void {
    const network = networkOf(address);
    this.#held.set(network, (this.#held.get(network) ?? 0) + 1);
    this.#taken += 1;
    let is_held = true;
    return () => {
      if (!is_held) return;
      is_held = false;
      this.#taken -= 1;
      const left = (this.#held.get(network) ?? 1) - 1;
      if (left > 0) this.#held.set(network, left);
      else this.#held.delete(network);
    };
  }
}

/** Maximum burst of admissions after a quiet time, as a duration at the current rate. */
const BURST_MS = 250;
/**
 * A robot that would be admitted within this time waits in the queue. Sending it away would cost another handshake, and waiting takes no more
 * memory than a link.
 */
const QUEUE_MS = 30_000;
const QUEUE_MIN = 20;
/** Maximum wait in the queue. After it a robot is sent away, because agents and many load balancers time out after a minute. */
const WAIT_MS_MAX = 45_000;
/** Slots are booked no further ahead than this. Later robots are asked to retry before then. */
const BOOKED_AHEAD_MS = 60_000;
/**
 * Slots are booked faster than the node admits by this factor. Robots that come too early wait in the queue, but a late robot would leave the
 * node idle.
 */
const BOOKED_FASTER = 1.15;
/** A robot may come this much before its slot, because clocks run at different rates. */
const EARLY_MS = 1_000;
/** How long after its time a slot expires. */
const LATE_MS = 30_000;
/** Random delay added to a robot's slot, so that robots with neighboring slots do not come at the same time. */
const JITTER_MS = 100;
const SLOT_BYTES = 9;
/** Running admissions are limited to about as many as end in this time. */
const AHEAD_MS = 2_000;
const RUNNING_MIN = 50;
/** Interval over which the node's admission rate is measured. */
const MEASURE_MS = 1_000;
/**
 * Share of the handshake in the cost of an admission. A node that is busy with handshakes of queued robots admits fewer robots, although it
 * is not slow.
 */
const HANDSHAKE_SHARE = 0.25;
/** The rate grows by this factor per measurement while booked robots come and the queue is empty. */
const RATE_GROWTH = 1.25;
const RATE_MIN = 5;
/**
 * Assumed rate, in robots per second, that limits running admissions before the first measurement. Even a slow node can serve these before
 * they time out. Slots are booked at the full limit.
 */
const RATE_UNPROVEN = 100;
/** Admissions start at up to this multiple of the measured rate, because the real rate may be higher by now. */
const RATE_AHEAD = 2;

export interface AdmissionSlot {
  retry_after_ms: number;
  /** Identifies the slot; absent if too many are booked. */
  slot?: string;
}

/** `entered`: the robot was admitted. `queued`: it waits until `enter` or `sendAway` is called. `later`: it must disconnect and retry. */
type Answer = { to: "entered" } | { to: "queued"; leave: () => void } | { to: "later"; booking: AdmissionSlot };

/** A robot that asks to be admitted. */
interface AdmissionRequest {
  /** The slot that an earlier answer booked, if the robot presents one. */
  slot: string | undefined;
  /** Networks alternate, and robots of one network are admitted in order of arrival. */
  network: string;
  /** Returns whether there is room for the robot now. Otherwise it keeps its place in the queue. */
  hasRoom: () => boolean;
  /** Called once when the robot is admitted, immediately or later. Returns false if the robot has disconnected. */
  enter: () => boolean;
  /** Called once instead of `enter`, if the robot was not admitted in time. */
  sendAway: (booking: AdmissionSlot) => void;
}

interface Queued extends AdmissionRequest {
  since: number;
}

/**
 * Limits the rate at which connecting robots are admitted (admission control). A robot is admitted immediately while the rate allows it and
 * few admissions are running. Otherwise it waits in the queue. If the queue is full, it gets a slot: a time to retry. The rate follows the
 * node's measured throughput, up to the limit, so that an overloaded server admits fewer robots instead of letting all of them time out.
 */
export class AdmissionQueue {
  readonly #clock: Pick<Clock, "monotonic" | "random" | "setTimer">;
  readonly #per_second: number;
  readonly #booked_max: number;
  /** Monotonic milliseconds by slot, roughly in order of time. */
  readonly #booked = new Map<string, number>();
  /** By network. */
  readonly #queue = new FairQueue<Queued>();
  #booked_until = -Infinity;
  #next_at = -Infinity;
  #running = 0;
  #timer: Timer | undefined;
  #rate: number;
  #proven: number;
  #asked = 0;
  #ended = 0;
  #measured_from = -Infinity;
  /** True if too many running admissions delayed others. Then the node is the bottleneck, and not silent robots. */
  #is_behind = false;

  /** `per_second` 0 means no limit. */
  constructor(clock: Pick<Clock, "monotonic" | "random" | "setTimer">, per_second: number) {
    this.#clock = clock;
    this.#per_second = per_second;
    this.#booked_max = Math.ceil((per_second * BOOKED_AHEAD_MS) / 1_000);
    this.#rate = per_second;
    this.#proven = Math.min(per_second, RATE_UNPROVEN);
  }

  /** Number of slots that are booked and not yet used. */
  get booked(): number {
    return this.#booked.size;
  }

  /** Number of robots that wait in the queue. */
  get queued(): number {
    return this.#queue.size;
  }

  /** Estimated admissions a second that this node can process. */
  get rate(): number {
    return this.#rate;
  }

  request(request: AdmissionRequest): Answer {
    if (this.#per_second === 0) return this.#enter(request);
    const now = this.#clock.monotonic();
    this.#expire(now);
    this.#measure(now);
    this.#asked += 1;
    if (request.hasRoom() && this.#queue.peek(hasRoom) === undefined && this.#mayEnter(now)) return this.#enter(request);
    const { slot } = request;
    const at = slot === undefined ? undefined : this.#booked.get(slot);
    if (slot !== undefined && at !== undefined) {
      if (now < at - EARLY_MS) return later(this.#bookingAt(at, now, slot));
      if (this.#queue.size >= 2 * this.#queue_max) return later(this.#bookAgain(slot, now));
      this.#booked.delete(slot);
    } else if (this.#queue.size >= this.#queue_max) return later(this.#book(now));
    return this.#enqueue(request, now);
  }

  /** Reports that the admission of a robot has started, when its hello has arrived. */
  started(): void {
    this.#running += 1;
  }

  /** Reports that room became free for a robot in the queue. */
  roomFreed(): void {
    if (this.#queue.size > 0) this.#advance();
  }

  /** Returns whether a slot is booked and has not expired. */
  isBooked(slot: string): boolean {
    return this.#booked.has(slot);
  }

  /** Reports that an admission ended, with or without success. */
  ended(): void {
    this.#running -= 1;
    this.#ended += 1;
    this.#measure(this.#clock.monotonic());
    this.#advance();
  }

  /** Stops admitting robots and sends away those in the queue. */
  close(): void {
    this.#timer?.cancel();
    const ahead = this.#queue.size;
    for (const waiting of this.#queue.takeWhile(() => true)) waiting.sendAway(this.#book(this.#clock.monotonic(), ahead));
  }

  get #queue_max(): number {
    return Math.max(QUEUE_MIN, (this.#rate * QUEUE_MS) / 1_000);
  }

  get #interval_ms(): number {
    return 1_000 / Math.min(this.#per_second, this.#rate * RATE_AHEAD);
  }

  #mayEnter(now: number): boolean {
    const has_room = this.#running < Math.max(RUNNING_MIN, (this.#proven * AHEAD_MS) / 1_000);
    if (!has_room) this.#is_behind = true;
    return has_room && this.#next_at <= now;
  }

  #enter({ slot, enter }: AdmissionRequest): Answer {
    if (slot !== undefined) this.#booked.delete(slot);
    if (enter() && this.#per_second > 0) this.#next_at = Math.max(this.#next_at, this.#clock.monotonic() - BURST_MS) + this.#interval_ms;
    return { to: "entered" };
  }

  #enqueue(request: AdmissionRequest, now: number): Answer {
    if (this.#queue.size === 0) this.#startMeasuring(now);
    const waiting: Queued = { ...request, since: now };
    this.#queue.push(waiting.network, waiting);
    this.#wake(now);
    return { to: "queued", leave: () => this.#queue.delete(waiting) };
  }

  /** Admits robots from the queue as far as allowed, and sends away those that have waited too long. */
  #advance(): void {
    const now = this.#clock.monotonic();
    while (this.#queue.peek(hasRoom) !== undefined && this.#mayEnter(now)) {
      const next = this.#queue.take(hasRoom);
      if (next !== undefined) this.#enter(next.item);
    }
    // They have waited longest, so no queued robot is ahead of them.
    for (const waiting of this.#queue.takeWhile(({ since }) => now - since >= WAIT_MS_MAX)) waiting.sendAway(this.#book(now, 0));
    this.#wake(now);
  }

  #wake(now: number): void {
    const first = this.#queue.oldest;
    if (first === undefined || this.#timer !== undefined) return;
    // The end of an admission calls `#advance` too.
    const turn_ms = Math.max(1, this.#next_at - now);
    const in_ms = turn_ms > 1 ? turn_ms : Math.max(1, Math.min(MEASURE_MS, first.since + WAIT_MS_MAX - now));
    this.#timer = this.#clock.setTimer(in_ms, () => {
      this.#timer = undefined;
      this.#measure(this.#clock.monotonic());
      this.#advance();
    });
  }

  #startMeasuring(now: number): void {
    this.#measured_from = now;
    this.#asked = 0;
    this.#ended = 0;
    this.#is_behind = false;
  }

  /**
   * Measures the rate. While robots wait, the node's throughput is its capacity. While none waits, the capacity may be higher: the rate
   * grows as long as booked robots come.
   */
  #measure(now: number): void {
    const took_ms = now - this.#measured_from;
    if (took_ms < MEASURE_MS) return;
    if (this.#queue.size > 0 && this.#is_behind) this.#learn(this.#ended / (took_ms / 1_000), this.#asked / (took_ms / 1_000));
    else if (this.#booked.size > 0) this.#rate = Math.min(this.#per_second, this.#rate * RATE_GROWTH);
    this.#startMeasuring(now);
  }

  #learn(ended_per_second: number, asked_per_second: number): void {
    const done = (1 - HANDSHAKE_SHARE) * ended_per_second + HANDSHAKE_SHARE * asked_per_second;
    this.#rate = Math.min(this.#per_second, Math.max(RATE_MIN, (this.#rate + done) / 2, done));
    this.#proven = Math.max(RATE_MIN, Math.min(this.#rate, ended_per_second * RATE_AHEAD));
  }

  #book(now: number, ahead = this.#queue.size): AdmissionSlot {
    const at = Math.max(this.#booked_until, now + (ahead * 1_000) / this.#rate);
    if (this.#booked.size >= this.#booked_max || at > now + BOOKED_AHEAD_MS)
      return { retry_after_ms: Math.ceil(BOOKED_AHEAD_MS * (0.5 + this.#clock.random() / 2)) };
    this.#booked_until = at + 1_000 / (this.#rate * BOOKED_FASTER);
    const slot = randomBytes(SLOT_BYTES).toString("base64url");
    this.#booked.set(slot, at);
    return this.#bookingAt(at, now, slot);
  }

  /**
   * Books a new time for a robot that came at its slot, because the node is slower than estimated. The time is random, among those of the
   * robots that are already booked.
   */
  #bookAgain(slot: string, now: number): AdmissionSlot {
    const all_in_ms = (this.#booked.size * 1_000) / this.#rate;
    const at = now + QUEUE_MS + this.#clock.random() * Math.min(BOOKED_AHEAD_MS, Math.max(QUEUE_MS, all_in_ms));
    this.#booked.delete(slot);
    this.#booked.set(slot, at);
    return this.#bookingAt(at, now, slot);
  }

  #bookingAt(at: number, now: number, slot: string): AdmissionSlot {
    return { retry_after_ms: Math.ceil(Math.max(0, at - now) + this.#clock.random() * JITTER_MS), slot };
  }

  #expire(now: number): void {
    for (const [slot, at] of this.#booked) {
      if (at + LATE_MS >= now) return;
      this.#booked.delete(slot);
    }
  }
}

/** Returns whether there is room for the first robot of a network. */
const hasRoom = (_network: string, first: Queued): boolean => first.hasRoom();

const later = (booking: AdmissionSlot): Answer => ({ to: "later", booking });
