import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "@roamfleet/clock";
import { FairQueue } from "../kernel/fair-queue.ts";
import { networkOf } from "../kernel/networks.ts";

/**
 * Limits the slots of each network with a dynamic threshold: a network may take at most as many slots as are still free. So a single
 * network gets half of the slots, two get a third each, and a new network always finds a free slot.
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

/** Maximum burst of admissions after an idle time: as many as the current rate admits in this time. */
const BURST_MS = 250;
/**
 * Maximum length of the queue, as the time in which its robots are admitted at the current rate. Sending a robot away costs another
 * handshake when it retries. A queued robot takes no more memory than a connected one.
 */
const QUEUE_MS = 30_000;
const QUEUE_MIN = 20;
/**
 * Maximum wait in the queue. After this time the robot is asked to retry, because agents and many load balancers time out after a minute.
 */
const WAIT_MS_MAX = 45_000;
/** Slots are booked at most this far ahead. When all are booked, a robot gets only a retry delay: 50% to 100% of this time. */
const BOOKED_AHEAD_MS = 60_000;
/**
 * Slots are booked at the node's admission rate times this factor. Robots that come too early wait in the queue, which is better than an
 * idle node that waits for the next robot.
 */
const BOOKED_FASTER = 1.15;
/** A robot may come this much before its slot, because clocks run at different rates. */
const EARLY_MS = 1_000;
/** A slot expires this long after its time. */
const LATE_MS = 30_000;
/** Random delay added to a robot's slot, so that robots with neighboring slots do not come at the same time. */
const JITTER_MS = 100;
const SLOT_BYTES = 9;
/** The number of concurrent admissions is limited to about what the node completes in this time. */
const AHEAD_MS = 2_000;
const RUNNING_MIN = 50;
/** Interval over which the node's admission rate is measured. */
const MEASURE_MS = 1_000;
/**
 * The handshake's share of the cost of an admission. The rate measurement counts handshakes with this weight. Otherwise a node that is busy
 * with handshakes of queued robots would seem slow.
 */
const HANDSHAKE_SHARE = 0.25;
/** The estimated rate grows by this factor per measurement while slots are booked and the node is not the bottleneck. */
const RATE_GROWTH = 1.25;
const RATE_MIN = 5;
/**
 * Assumed rate, in robots per second, that limits concurrent admissions before the first measurement. Even a slow node completes that many
 * admissions before the robots time out. Meanwhile, slots are booked at the configured maximum rate.
 */
const RATE_UNPROVEN = 100;
/** Admissions start at up to this multiple of the measured rate, because the real rate may be higher by now. */
const RATE_AHEAD = 2;

export interface AdmissionSlot {
  retry_after_ms: number;
  /** Identifies the booked slot; absent if too many slots are booked already. */
  slot?: string;
}

/** `entered`: the robot was admitted. `queued`: it waits until `enter` or `sendAway` is called. `later`: it must disconnect and retry. */
type Answer = { to: "entered" } | { to: "queued"; leave: () => void } | { to: "later"; booking: AdmissionSlot };

/** A robot that asks to be admitted. */
interface AdmissionRequest {
  /** The slot that an earlier answer booked, if the robot presents one. */
  slot: string | undefined;
  /** Network of the robot's address. Networks are served round robin, and the robots of one network in order of arrival. */
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
  /** The time of each booked slot, in monotonic milliseconds. Roughly ordered by time. */
  readonly #booked = new Map<string, number>();
  /** Queued robots by network. */
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
  /** True if the limit of concurrent admissions delayed a robot. Then the node is the bottleneck, not robots that send their hello late. */
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
    // These robots have waited longest, so their new slots are booked as if the queue were empty.
    for (const waiting of this.#queue.takeWhile(({ since }) => now - since >= WAIT_MS_MAX)) waiting.sendAway(this.#book(now, 0));
    this.#wake(now);
  }

  #wake(now: number): void {
    const first = this.#queue.oldest;
    if (first === undefined || this.#timer !== undefined) return;
    // A robot that waits for a running admission needs no exact timer: the end of an admission calls `#advance` too.
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
   * Updates the estimated rate. If running admissions delayed queued robots, the measured throughput is the node's capacity. Otherwise the
   * capacity may be higher, so the estimate grows while slots are booked.
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
   * Books a new time for a robot that came at its booked time and found the queue full, because the node is slower than estimated. The new
   * time is random, among the times of the robots that are already booked.
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
