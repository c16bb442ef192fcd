import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import { askGate, type GateContext, type SafeToUpdate } from "./gate.ts";
import { type FallReason, type HeldLock, LockBusy, type LockRequest, type UpdateLock } from "./update-lock.ts";

/** While a lock holds, how often is looked whether it fell. */
export const LOCK_LOOK_MS = 1_000;
/** Between two questions to the gate: grows from the first to the last. */
const GATE_RETRY_FIRST_MS = 1_000;
const GATE_RETRY_LAST_MS = 60_000;
/** A gate that said yes is believed for so long; after that it is asked again. */
const GATE_FRESH_MS = 5_000;

/** Why nothing that changes what runs may begin, and when to ask again. */
export interface Held {
  by: "lock" | "gate";
  why: string;
  retry_ms: number;
}

/** Whether a step that changes what runs may begin. */
export interface Permission {
  /** At this very instant, without asking anybody. */
  readonly may_install: boolean;
  /** The update lock holds at this very instant. */
  readonly locked: boolean;
  /** Asks the robot; undefined: it may begin now. Never rejects. */
  ask(): Promise<Held | undefined>;
}

/** A robot that never holds anything back. */
export const ALWAYS: Permission = { may_install: true, locked: false, ask: () => Promise.resolve(undefined) };

export type LockEvent =
  | { type: "lock.taken"; lock: HeldLock }
  | { type: "lock.renewed"; lock: HeldLock }
  | { type: "lock.released"; owner: string }
  | { type: "lock.fallen"; owner: string; reason: FallReason };

export interface RobotPermissionOptions {
  lock: UpdateLock;
  gate?: SafeToUpdate | undefined;
  /** Where and with which environment the gate's command runs. */
  gate_context: Pick<GateContext, "env" | "directory">;
  clock: Clock;
  log: Logger;
}

/** The robot's own word: its update lock first, then its gate. */
export class RobotPermission implements Permission {
  /** Told of everything that becomes of the lock; whoever waits for it asks again. */
  on_event: (event: LockEvent) => void = () => {};
  readonly #options: RobotPermissionOptions;
  readonly #stopping = new AbortController();
  #watch: Timer | undefined;
  #asking: Promise<Held | undefined> | undefined;
  #refused: { why: string; ask_again_at: number } | undefined;
  #refusals = 0;
  #safe_at = -Infinity;
  #disk_trouble: string | undefined;

  constructor(options: RobotPermissionOptions) {
    this.#options = options;
  }

  /** Looks at a lock that may be there from before, and watches it. */
  start(): void {
    this.#look();
    if (this.lock() !== undefined) this.#watchLock();
  }

  /** Ends the question under way. */
  stop(): void {
    this.#stopping.abort();
    this.#unwatchLock();
  }

  /** Who holds the lock now. A disk that cannot be read counts as free: robots must stay within reach. */
  lock(): HeldLock | undefined {
    try {
      const held = this.#options.lock.held;
      this.#disk_trouble = undefined;
      return held;
    } catch (error) {
      const reason = errorText(error);
      if (reason !== this.#disk_trouble) this.#options.log.error({ reason }, "the update lock could not be read");
      this.#disk_trouble = reason;
      return undefined;
    }
  }

  get locked(): boolean {
    return this.lock() !== undefined;
  }

  get may_install(): boolean {
    const { gate, clock } = this.#options;
    return !this.locked && (gate === undefined || clock.monotonic() - this.#safe_at < GATE_FRESH_MS);
  }

  async ask(): Promise<Held | undefined> {
    const held = this.lock();
    if (held !== undefined) {
      this.#watchLock();
      return { by: "lock", why: `${held.owner} holds the update lock`, retry_ms: LOCK_LOOK_MS };
    }
    const { gate } = this.#options;
    if (gate === undefined) return undefined;
    // Apps that wait at the same time share one answer.
    this.#asking ??= this.#askGate(gate).finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  async #askGate(gate: SafeToUpdate): Promise<Held | undefined> {
    const { clock, gate_context } = this.#options;
    const before = this.#refused;
    if (before !== undefined && clock.monotonic() < before.ask_again_at)
      return { by: "gate", why: before.why, retry_ms: before.ask_again_at - clock.monotonic() };
    // A robot that was not asked for long starts with short waits again.
    if (before !== undefined && clock.monotonic() > before.ask_again_at + GATE_RETRY_LAST_MS) this.#refusals = 0;
    const { safe, why } = await askGate(gate, { ...gate_context, clock, signal: this.#stopping.signal });
    if (safe) {
      this.#safe_at = clock.monotonic();
      this.#refused = undefined;
      this.#refusals = 0;
      return undefined;
    }
    const retry_ms = Math.min(GATE_RETRY_LAST_MS, GATE_RETRY_FIRST_MS * 2 ** Math.min(this.#refusals, 16));
    this.#refusals += 1;
    this.#refused = { why, ask_again_at: clock.monotonic() + retry_ms };
    return { by: "gate", why, retry_ms };
  }

  /** Throws LockHeld, NoSuchProcess, LockBusy. */
  takeLock(request: LockRequest): HeldLock {
    this.#look();
    const renewed = this.lock() !== undefined;
    const lock = this.#options.lock.take(request);
    this.#watchLock();
    if (!renewed) this.#options.log.info({ owner: lock.owner, ttl_seconds: lock.ttl_seconds, pid: lock.pid }, "update lock taken");
    this.on_event({ type: renewed ? "lock.renewed" : "lock.taken", lock });
    return lock;
  }

  /** Answers whether there was a lock. Throws LockHeld, LockBusy. */
  releaseLock(owner: string | undefined): boolean {
    this.#look();
    const released = this.#options.lock.release(owner);
    if (released === undefined) return false;
    this.#unwatchLock();
    this.#options.log.info({ owner: released, by_force: owner === undefined }, "update lock released");
    this.on_event({ type: "lock.released", owner: released });
    return true;
  }

  #watchLock(): void {
    this.#watch ??= this.#options.clock.every(LOCK_LOOK_MS, () => {
      this.#look();
      if (this.lock() === undefined) this.#unwatchLock();
    });
  }

  #unwatchLock(): void {
    this.#watch?.cancel();
    this.#watch = undefined;
  }

  #look(): void {
    const { lock, log } = this.#options;
    try {
      const fell = lock.sweep();
      if (fell === undefined) return;
      log.warn({ owner: fell.owner, why: fell.reason }, "update lock fell");
      this.on_event({ type: "lock.fallen", ...fell });
    } catch (error) {
      if (error instanceof LockBusy) return;
      // It holds no longer, whether it can be removed or not.
      log.debug({ reason: errorText(error) }, "a fallen update lock could not be removed");
    }
  }
}
