import { type Clock, type Timer, exponentialMs } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import { type ExpiryReason, type HeldLock, LockBusy, type LockRequest, type UpdateLock } from "./update-lock.ts";
import { OUTPUT_TAIL_CHARACTERS } from "../runtime/limits.ts";
import { runCommand } from "../runtime/spawn-child.ts";
import { getOnce } from "../runtime/health-check.ts";

/** Interval at which the agent checks whether the update lock has expired. */
const LOCK_LOOK_MS = 1_000;
/** First and last wait of the backoff between safe-to-update checks. The code calls such a check a gate. */
const GATE_RETRY_FIRST_MS = 1_000;
const GATE_RETRY_LAST_MS = 60_000;
/** Time for which a positive result of the safe-to-update check is valid. */
const GATE_FRESH_MS = 5_000;

/** Why the running release must not be changed now, and when to check again. */
export interface Held {
  by: "lock" | "gate";
  why: string;
  retry_ms: number;
}

/** Decides whether a step that changes the running release may begin. */
export interface Permission {
  /**
   * Whether a change may begin now, according to the update lock and the last result of the safe-to-update check. Does not run the
   * check.
   */
  readonly may_install: boolean;
  readonly locked: boolean;
  /**
   * Checks the update lock, then runs the safe-to-update check. Resolves to undefined if a change may begin now. Never rejects.
   */
  ask(): Promise<Held | undefined>;
}

/** Permits every change, for a robot that never delays updates. */
export const ALWAYS: Permission = { may_install: true, locked: false, ask: () => Promise.resolve(undefined) };

type LockEvent =
  | { type: "lock.taken"; lock: HeldLock }
  | { type: "lock.renewed"; lock: HeldLock }
  | { type: "lock.released"; owner: string }
  | { type: "lock.expired"; owner: string; reason: ExpiryReason };

interface RobotPermissionOptions {
  lock: UpdateLock;
  gate?: SafeToUpdate | undefined;
  /** Environment and working directory of the command that makes the safe-to-update check. */
  gate_context: Pick<GateContext, "env" | "directory">;
  clock: Clock;
  log: Logger;
}

/** Decides from the update lock, then from the safe-to-update check, whether the robot may be changed. */
export class RobotPermission implements Permission {
  /** Called when the update lock changes, so that the workers check the lock again. */
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

  /** Begins to watch a lock that was taken before the agent started. Removes the lock if it has expired. */
  start(): void {
    this.#look();
    if (this.lock() !== undefined) this.#watchLock();
  }

  /** Stops watching the lock, and aborts a safe-to-update check in progress. */
  stop(): void {
    this.#stopping.abort();
    this.#unwatchLock();
  }

  /**
   * Returns the update lock; undefined if there is none. If the disk cannot be read, the robot counts as unlocked, so that it can
   * still be updated.
   */
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
    // If the last check was long ago, start the backoff again from its shortest wait.
    if (before !== undefined && clock.monotonic() > before.ask_again_at + GATE_RETRY_LAST_MS) this.#refusals = 0;
    const { safe, why } = await askGate(gate, { ...gate_context, clock, signal: this.#stopping.signal });
    if (safe) {
      this.#safe_at = clock.monotonic();
      this.#refused = undefined;
      this.#refusals = 0;
      return undefined;
    }
    const retry_ms = exponentialMs(GATE_RETRY_FIRST_MS, GATE_RETRY_LAST_MS, this.#refusals);
    this.#refusals += 1;
    this.#refused = { why, ask_again_at: clock.monotonic() + retry_ms };
    return { by: "gate", why, retry_ms };
  }

  /** Takes the lock, or renews it for its owner. Throws LockHeld, NoSuchProcess, LockBusy. */
  takeLock(request: LockRequest): HeldLock {
    this.#look();
    const renewed = this.lock() !== undefined;
    const lock = this.#options.lock.take(request);
    this.#watchLock();
    if (!renewed) this.#options.log.info({ owner: lock.owner, ttl_seconds: lock.ttl_seconds, pid: lock.pid }, "update lock taken");
    this.on_event({ type: renewed ? "lock.renewed" : "lock.taken", lock });
    return lock;
  }

  /** Releases the lock; with `owner` undefined, that of any owner. Returns whether there was a lock. Throws LockHeld, LockBusy. */
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
      log.warn({ owner: fell.owner, why: fell.reason }, "update lock expired");
      this.on_event({ type: "lock.expired", ...fell });
    } catch (error) {
      if (error instanceof LockBusy) return;
      // The lock has expired even if its file cannot be removed.
      log.debug({ reason: errorText(error) }, "an expired update lock could not be removed");
    }
  }
}

/** The safe-to-update check: a command or a URL on the robot that decides whether the robot may be updated now. */
export type SafeToUpdate = ({ command: string } | { url: string }) & { timeout_ms: number };

export const GATE_TIMEOUT_SECONDS_DEFAULT = 10;
export const GATE_TIMEOUT_SECONDS_MAX = 300;

interface GateAnswer {
  safe: boolean;
  /** Reason for the result, at most a few hundred characters. */
  why: string;
}

interface GateContext {
  env: Record<string, string>;
  directory: string;
  clock: Clock;
  signal: AbortSignal;
}

/** Runs the safe-to-update check once. Returns within the timeout and never throws. Only an explicit yes counts as safe. */
async function askGate(gate: SafeToUpdate, { env, directory, clock, signal }: GateContext): Promise<GateAnswer> {
  const { timeout_ms } = gate;
  if ("command" in gate) {
    const { ok, message } = await runCommand({ argv: ["/bin/sh", "-c", gate.command], cwd: directory, env, timeout_ms, clock, signal });
    return { safe: ok, why: `the safe-to-update command ${message}` };
  }
  try {
    const { status, body } = await getOnce(gate.url, { timeout_ms, clock, signal, body_max: OUTPUT_TAIL_CHARACTERS });
    return { safe: status === 200, why: `${gate.url} returned status ${status}${body === "" ? "" : `: ${body}`}` };
  } catch (error) {
    return { safe: false, why: `${gate.url}: ${errorText(error)}` };
  }
}
