import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "@roamfleet/clock";

/** So much of a second's worth may come in at once after a quiet time. */
const BURST_MS = 250;
/** Whoever's turn comes this soon waits where it is: to send it away costs another handshake, and it takes no more memory than when it is in. */
const LINE_MS = 30_000;
const LINE_MIN = 20;
/** A turn that did not come by then will not come in time: an agent waits a minute for its answer, as many balancers do. */
const PATIENCE_MS = 45_000;
/** Slots are booked no further ahead than this; whoever is beyond is told to ask again before then. */
const BOOKED_AHEAD_MS = 60_000;
/** Slots are booked so much faster than the node manages: who comes too soon waits in line, but nothing brings those forward who come too late. */
const BOOKED_FASTER = 1.15;
/** Whoever comes a little early is taken: clocks run differently. */
const EARLY_MS = 1_000;
/** A slot is kept for so long after its time. */
const LATE_MS = 30_000;
/** Added at random to what a robot is told, so that those with neighbouring slots do not come in step. */
const JITTER_MS = 100;
const SLOT_BYTES = 9;
/** As many are let in ahead of those whose admission has ended as end in this time. */
const AHEAD_MS = 2_000;
const UNDER_WAY_MIN = 50;
/** What a node manages is measured over so long, and believed to be at least this. */
const MEASURE_MS = 1_000;
/** The handshake's part of what an admission costs; a node that is busy with handshakes of those in line admits fewer, and is not slow. */
const HANDSHAKE_SHARE = 0.25;
/** The rate grows so much each time that it is measured while booked robots come and nobody has to wait. */
const RATE_GROWTH = 1.25;
const RATE_MIN = 5;
/** Before it is measured slots are booked at the limit, but no more are let in at once than a slow node has served before they give up. */
const RATE_UNPROVEN = 100;
/** Faster than measured by so much at most: it may be more by now. */
const RATE_AHEAD = 2;

export interface Booking {
  retry_after_ms: number;
  /** Names the slot; absent when too many are booked. */
  slot?: string;
}

/** `entered`: it was let in. `in_line`: it is told when its turn comes. `later`: it is to go, and to come back. */
type Answer = { to: "entered" } | { to: "in_line"; leave: () => void } | { to: "later"; booking: Booking };

/** Somebody who wants in. */
interface Asking {
  /** What an earlier answer booked, if it names one. */
  slot: string | undefined;
  /** Those of one network come in one after the other, and networks in turn. */
  network: string;
  /** Whether there is room for it at this moment; without, it keeps its place in the line. */
  hasRoom: () => boolean;
  /** Called once when it is let in, at once or later; false when it does not take its turn. */
  enter: () => boolean;
  /** Called once instead, when its turn in the line does not come in time. */
  sendAway: (booking: Booking) => void;
}

interface InLine extends Asking {
  since: number;
}

/**
 * Spreads a storm of connecting robots over what this node manages. Whoever comes is let in while the rate is not exceeded
 * and few admissions are under way; then a line forms, and whoever is beyond the line is booked a slot and told when that is.
 * The rate follows what the node gets done, up to the limit: a server that is starved lets in fewer instead of having all of
 * them give up.
 */
export class AcceptSlots {
  readonly #clock: Pick<Clock, "monotonic" | "random" | "setTimer">;
  readonly #per_second: number;
  readonly #booked_max: number;
  /** Monotonic milliseconds by slot; about in the order of their times. */
  readonly #booked = new Map<string, number>();
  /** In the order in which they came. */
  readonly #line = new Set<InLine>();
  /** The same by network; the one whose turn is next stands first. */
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
  /** Admissions that have begun were waited for: the node, and not those who say nothing, decides how many are let in. */
  #is_behind = false;

  /** `per_second` 0: no limit. */
  constructor(clock: Pick<Clock, "monotonic" | "random" | "setTimer">, per_second: number) {
    this.#clock = clock;
    this.#per_second = per_second;
    this.#booked_max = Math.ceil((per_second * BOOKED_AHEAD_MS) / 1_000);
    this.#rate = per_second;
    this.#proven = Math.min(per_second, RATE_UNPROVEN);
  }

  /** Slots that are booked and not yet used. */
  get booked(): number {
    return this.#booked.size;
  }

  /** Who waits for its turn without having been sent away. */
  get in_line(): number {
    return this.#line.size;
  }

  /** Admissions a second that this node is believed to manage. */
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

  /** The admission of somebody who was let in has begun, as it has said who it is. */
  begun(): void {
    this.#under_way += 1;
  }

  /** Room has come free for somebody in line. */
  roomCame(): void {
    if (this.#line.size > 0) this.#advance();
  }

  /** Whether a slot is booked and has not expired. */
  isBooked(slot: string): boolean {
    return this.#booked.has(slot);
  }

  /** It has ended, whichever way. */
  ended(): void {
    this.#under_way -= 1;
    this.#ended += 1;
    this.#measure(this.#clock.monotonic());
    this.#advance();
  }

  /** Nobody is let in any more; those in line are sent away. */
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

  /** Whose turn it is in the line: the first of a network that has room. */
  #next(): InLine | undefined {
    for (const [first] of this.#networks.values()) if (first?.hasRoom() === true) return first;
    return undefined;
  }

  /** Lets in from the line whom it may, and sends away whom it cannot serve in time. */
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
      // Nobody in line is before it.
      waiting.sendAway(this.#book(now, 0));
    }
    this.#wake(now);
  }

  #wake(now: number): void {
    const [first] = this.#line;
    if (first === undefined || this.#timer !== undefined) return;
    // An admission that ends wakes it, too.
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
   * What is done while others wait is what the node manages. When nobody has to wait it may manage more, which is tried
   * while those who were booked at that rate still come.
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

  /** It came at its time and the node manages less than was thought: it comes again among those who are booked already. */
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
