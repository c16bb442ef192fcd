import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "@roamfleet/clock";

/** Admissions allowed in one burst after a quiet time, as a duration at the current rate. */
const BURST_MS = 250;
/**
 * A robot that would be admitted within this time waits in line. Sending it away would cost another handshake, and waiting takes no more
 * memory than a link.
 */
const LINE_MS = 30_000;
const LINE_MIN = 20;
/** A robot that has waited this long is sent away: agents and many load balancers time out after a minute. */
const PATIENCE_MS = 45_000;
/** Slots are booked no further ahead than this. Later robots are asked to retry before then. */
const BOOKED_AHEAD_MS = 60_000;
/**
 * Slots are booked faster than the node admits by this factor. Robots that come too early wait in line, but a late robot would leave the
 * node idle.
 */
const BOOKED_FASTER = 1.15;
/** A robot may come this much before its slot, because clocks run at different rates. */
const EARLY_MS = 1_000;
/** A slot expires this long after its time. */
const LATE_MS = 30_000;
/** Random delay added to a robot's slot, so that robots with neighboring slots do not come at the same time. */
const JITTER_MS = 100;
const SLOT_BYTES = 9;
/** Limits started admissions to about as many as end in this time. */
const AHEAD_MS = 2_000;
const UNDER_WAY_MIN = 50;
/** The node's rate is measured over this interval. */
const MEASURE_MS = 1_000;
/**
 * Share of a handshake in the cost of an admission. A node that is busy with handshakes of waiting robots admits fewer, without being slow.
 */
const HANDSHAKE_SHARE = 0.25;
/** The rate grows by this factor per measurement while booked robots come and the line is empty. */
const RATE_GROWTH = 1.25;
const RATE_MIN = 5;
/**
 * Before the first measurement, slots are booked at the limit. But only this many robots are admitted at the same time, which a slow node
 * can serve before they time out.
 */
const RATE_UNPROVEN = 100;
/** Admissions start at most this much faster than measured, because the real rate may be higher by now. */
const RATE_AHEAD = 2;

export interface Booking {
  retry_after_ms: number;
  /** Identifies the slot; absent if too many are booked. */
  slot?: string;
}

/** `entered`: it was admitted. `in_line`: it waits, and `enter` or `sendAway` is called later. `later`: it must disconnect and retry. */
type Answer = { to: "entered" } | { to: "in_line"; leave: () => void } | { to: "later"; booking: Booking };

/** A robot that asks to be admitted. */
interface Asking {
  /** The slot that an earlier answer booked, if it presents one. */
  slot: string | undefined;
  /** Networks alternate, and robots of one network are admitted in order of arrival. */
  network: string;
  /** Returns whether there is room for it now. Otherwise it keeps its place in line. */
  hasRoom: () => boolean;
  /** Called once when it is admitted, immediately or later. Returns false if it does not use its turn. */
  enter: () => boolean;
  /** Called once instead, if it was not admitted in time. */
  sendAway: (booking: Booking) => void;
}

interface InLine extends Asking {
  since: number;
}

/**
 * Limits the rate at which connecting robots are admitted (admission control). A robot is admitted immediately while the rate allows it and
 * few admissions are running. Otherwise it waits in line and, beyond the line's length, gets a slot: a time to retry. The rate follows the
 * node's measured throughput, up to the limit, so that an overloaded server admits fewer robots instead of letting all of them time out.
 */
export class AcceptSlots {
  readonly #clock: Pick<Clock, "monotonic" | "random" | "setTimer">;
  readonly #per_second: number;
  readonly #booked_max: number;
  /** Monotonic milliseconds by slot, roughly in order of time. */
  readonly #booked = new Map<string, number>();
  /** In order of arrival. */
  readonly #line = new Set<InLine>();
  /** The same robots by network. The network that is served next comes first. */
  readonly #networks = new Map<string, Set<InLine>>();
  #booked_until = -Infinity;
  #next_at = -Infinity;
  #under_way = 0;
  #timer: Timer | undefined;
  #rate: number;
  #proven: number;
  #asked = 0;
  #ended = 0;
  #measured_from = -Infinity;
  /** Running admissions delayed others, so the node is the bottleneck and not silent robots. */
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

  /** Number of robots that wait in line. */
  get in_line(): number {
    return this.#line.size;
  }

  /** Estimated admissions a second that this node can process. */
  get rate(): number {
    return this.#rate;
  }

  ask(asking: Asking): Answer {
    if (this.#per_second === 0) return this.#enter(asking);
    const now = this.#clock.monotonic();
    this.#expire(now);
    this.#measure(now);
    this.#asked += 1;
    if (asking.hasRoom() && this.#next() === undefined && this.#mayEnter(now)) return this.#enter(asking);
    const { slot } = asking;
    const at = slot === undefined ? undefined : this.#booked.get(slot);
    if (slot !== undefined && at !== undefined) {
      if (now < at - EARLY_MS) return later(this.#bookingAt(at, now, slot));
      if (this.#line.size >= 2 * this.#line_max) return later(this.#bookAgain(slot, now));
      this.#booked.delete(slot);
    } else if (this.#line.size >= this.#line_max) return later(this.#book(now));
    return this.#queue(asking, now);
  }

  /** Reports that the admission of a robot has started, when its hello has arrived. */
  begun(): void {
    this.#under_way += 1;
  }

  /** Reports that room became free for a robot in line. */
  roomCame(): void {
    if (this.#line.size > 0) this.#advance();
  }

  /** Returns whether a slot is booked and has not expired. */
  isBooked(slot: string): boolean {
    return this.#booked.has(slot);
  }

  /** Reports that an admission ended, with or without success. */
  ended(): void {
    this.#under_way -= 1;
    this.#ended += 1;
    this.#measure(this.#clock.monotonic());
    this.#advance();
  }

  /** Stops admitting robots and sends away those in line. */
  close(): void {
    this.#timer?.cancel();
    for (const waiting of this.#line) waiting.sendAway(this.#book(this.#clock.monotonic()));
    this.#line.clear();
    this.#networks.clear();
  }

  get #line_max(): number {
    return Math.max(LINE_MIN, (this.#rate * LINE_MS) / 1_000);
  }

  get #interval_ms(): number {
    return 1_000 / Math.min(this.#per_second, this.#rate * RATE_AHEAD);
  }

  #mayEnter(now: number): boolean {
    const has_room = this.#under_way < Math.max(UNDER_WAY_MIN, (this.#proven * AHEAD_MS) / 1_000);
    if (!has_room) this.#is_behind = true;
    return has_room && this.#next_at <= now;
  }

  #enter({ slot, enter }: Asking): Answer {
    if (slot !== undefined) this.#booked.delete(slot);
    if (enter() && this.#per_second > 0) this.#next_at = Math.max(this.#next_at, this.#clock.monotonic() - BURST_MS) + this.#interval_ms;
    return { to: "entered" };
  }

  #queue(asking: Asking, now: number): Answer {
    if (this.#line.size === 0) this.#startMeasuring(now);
    const waiting: InLine = { ...asking, since: now };
    this.#line.add(waiting);
    const of_network = this.#networks.get(waiting.network);
    if (of_network === undefined) this.#networks.set(waiting.network, new Set([waiting]));
    else of_network.add(waiting);
    this.#wake(now);
    return { to: "in_line", leave: () => this.#leave(waiting) };
  }

  #leave(waiting: InLine): void {
    this.#line.delete(waiting);
    const of_network = this.#networks.get(waiting.network);
    of_network?.delete(waiting);
    if (of_network?.size === 0) this.#networks.delete(waiting.network);
  }

  /** Returns the next robot to admit: the first of a network that has room. */
  #next(): InLine | undefined {
    for (const [first] of this.#networks.values()) if (first?.hasRoom() === true) return first;
    return undefined;
  }

  /** Admits robots from the line as far as allowed, and sends away those that have waited too long. */
  #advance(): void {
    const now = this.#clock.monotonic();
    for (let next = this.#next(); next !== undefined && this.#mayEnter(now); next = this.#next()) {
      const { network } = next;
      this.#leave(next);
      const others = this.#networks.get(network);
      this.#networks.delete(network);
      if (others !== undefined) this.#networks.set(network, others);
      this.#enter(next);
    }
    for (const waiting of this.#line) {
      if (now - waiting.since < PATIENCE_MS) break;
      this.#leave(waiting);
      // No robot in line is before it.
      waiting.sendAway(this.#book(now, 0));
    }
    this.#wake(now);
  }

  #wake(now: number): void {
    const [first] = this.#line;
    if (first === undefined || this.#timer !== undefined) return;
    // The end of an admission calls `#advance` too.
    const turn_ms = Math.max(1, this.#next_at - now);
    const in_ms = turn_ms > 1 ? turn_ms : Math.max(1, Math.min(MEASURE_MS, first.since + PATIENCE_MS - now));
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
    if (this.#line.size > 0 && this.#is_behind) this.#learn(this.#ended / (took_ms / 1_000), this.#asked / (took_ms / 1_000));
    else if (this.#booked.size > 0) this.#rate = Math.min(this.#per_second, this.#rate * RATE_GROWTH);
    this.#startMeasuring(now);
  }

  #learn(ended_per_second: number, asked_per_second: number): void {
    const done = (1 - HANDSHAKE_SHARE) * ended_per_second + HANDSHAKE_SHARE * asked_per_second;
    this.#rate = Math.min(this.#per_second, Math.max(RATE_MIN, (this.#rate + done) / 2, done));
    this.#proven = Math.max(RATE_MIN, Math.min(this.#rate, ended_per_second * RATE_AHEAD));
  }

  #book(now: number, ahead = this.#line.size): Booking {
    const at = Math.max(this.#booked_until, now + (ahead * 1_000) / this.#rate);
    if (this.#booked.size >= this.#booked_max || at > now + BOOKED_AHEAD_MS)
      return { retry_after_ms: Math.ceil(BOOKED_AHEAD_MS * (0.5 + this.#clock.random() / 2)) };
    this.#booked_until = at + 1_000 / (this.#rate * BOOKED_FASTER);
    const slot = randomBytes(SLOT_BYTES).toString("base64url");
    this.#booked.set(slot, at);
    return this.#bookingAt(at, now, slot);
  }

  /** The robot came at its slot, but the node is slower than estimated. It gets a random time among the robots that are already booked. */
  #bookAgain(slot: string, now: number): Booking {
    const all_in_ms = (this.#booked.size * 1_000) / this.#rate;
    const at = now + LINE_MS + this.#clock.random() * Math.min(BOOKED_AHEAD_MS, Math.max(LINE_MS, all_in_ms));
    this.#booked.delete(slot);
    this.#booked.set(slot, at);
    return this.#bookingAt(at, now, slot);
  }

  #bookingAt(at: number, now: number, slot: string): Booking {
    return { retry_after_ms: Math.ceil(Math.max(0, at - now) + this.#clock.random() * JITTER_MS), slot };
  }

  #expire(now: number): void {
    for (const [slot, at] of this.#booked) {
      if (at + LATE_MS >= now) return;
      this.#booked.delete(slot);
    }
  }
}

const later = (booking: Booking): Answer => ({ to: "later", booking });
