import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { uptime } from "node:os";
import type { Clock } from "@roamfleet/clock";
import { failpoint } from "@roamfleet/clock/failpoint";
import { lockState, StateLockedError } from "../disk/lock.ts";
import { isMissing, removeDurably, writeJson } from "../disk/write-atomically.ts";
import { parseObject } from "../json.ts";
import { readProcess } from "../runtime/processes.ts";
import { readBootId } from "../identity/identity.ts";

/** Maximum lifetime of a lock in seconds. A program that needs the lock for longer must renew it. */
export const LOCK_TTL_SECONDS_MAX = 86_400;
export const LOCK_OWNER_CHARACTERS_MAX = 100;
/** Time in seconds for which an unreadable lock file counts as a lock, since a program probably meant to take one. */
export const LOCK_UNREADABLE_SECONDS = 600;
export const LOCK_FILE = "update.lock";

interface LockFile {
  owner: string;
  ttl_seconds: number;
  /** Pid of a process with whose end the lock expires. null: the lock expires only after its TTL. */
  pid: number | null;
  /** Start time of that process in clock ticks since boot. With the pid it identifies the process, since pids are reused. */
  pid_start_time: number | null;
  boot_id: string;
  taken_uptime_ms: number;
  /** Time at which the lock was taken. It is only for people, and has no effect. */
  taken_at: string;
}

export interface HeldLock {
  owner: string;
  pid: number | null;
  ttl_seconds: number;
  taken_at: string;
  expires_in_seconds: number;
}

/** Why a lock expired before its owner released it. */
export type ExpiryReason = "expired" | "owner_gone" | "rebooted";

export type LockState = { held: HeldLock } | { expired: { owner: string; reason: ExpiryReason } } | { free: true };

export interface LockRequest {
  owner: string;
  /** Lifetime of the lock in seconds, from 1 to LOCK_TTL_SECONDS_MAX. */
  ttl_seconds: number;
  /** Pid on this machine, in the agent's pid namespace. */
  pid?: number;
}

export class LockHeld extends Error {
  readonly held: HeldLock;

  constructor(held: HeldLock) {
    super(`${held.owner} holds the update lock for another ${held.expires_in_seconds} s`);
    this.held = held;
  }
}

/** Thrown if the process that the lock should be bound to does not exist. */
export class NoSuchProcess extends Error {}
/** Thrown while another process is changing the lock. The caller should retry. */
export class LockBusy extends Error {}

interface UpdateLockOptions {
  state_directory: string;
  clock: Clock;
  machine: Machine;
}

/**
 * The file `update.lock` in the state directory. The robot's software owns the lock while an update would be dangerous. Each change is one
 * atomic write, made by one process at a time. So if a process is killed at any point, either the old or the new lock remains. The TTL
 * counts from the machine's uptime, so a wrong or changed clock cannot extend the lock.
 */
export class UpdateLock {
  readonly #options: UpdateLockOptions;
  readonly #path: string;
  /** The uptime at which a lock file without an uptime stamp was first seen. */
  #foreign: { mark: string; seen_uptime_ms: number } | undefined;

  constructor(options: UpdateLockOptions) {
    this.#options = options;
    this.#path = join(options.state_directory, LOCK_FILE);
  }

  /** Reads the lock file and returns the state of the lock. The lock is free if there is no file. Throws on a disk error. */
  look(): LockState {
    let text: string;
    let modified_ms: number;
    let mark: string;
    try {
      text = readFileSync(this.#path, "utf8");
      const stat = statSync(this.#path);
      modified_ms = stat.mtimeMs;
      mark = `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
    } catch (error) {
      if (isMissing(error)) return { free: true };
      throw error;
    }
    const file = parseLock(text);
    const { machine } = this.#options;
    // If the file was taken at a future uptime, its lock might never expire. Such a file is evaluated like one that another program wrote.
    const ours = "boot_id" in file && (file.boot_id !== machine.boot_id || file.taken_uptime_ms <= machine.uptime_ms());
    return ours ? this.#evaluate(file) : this.#evaluateForeign(file, modified_ms, mark);
  }

  #evaluate(file: LockFile): LockState {
    const { machine } = this.#options;
    if (file.boot_id !== machine.boot_id) return expired(file.owner, "rebooted");
    const left_ms = file.taken_uptime_ms + file.ttl_seconds * 1_000 - machine.uptime_ms();
    if (left_ms <= 0) return expired(file.owner, "expired");
    if (file.pid !== null && readProcess(file.pid)?.start_time !== file.pid_start_time) return expired(file.owner, "owner_gone");
    return { held: heldBy(file, file.taken_at, left_ms) };
  }

  /**
   * Evaluates a lock file that another program wrote. Its TTL counts from the file's modification and from when the agent first saw it; the
   * lock expires at the earlier end.
   */
  #evaluateForeign(file: Foreign, modified_ms: number, mark: string): LockState {
    const { machine, clock } = this.#options;
    if (this.#foreign?.mark !== mark) this.#foreign = { mark, seen_uptime_ms: machine.uptime_ms() };
    const age_ms = Math.max(machine.uptime_ms() - this.#foreign.seen_uptime_ms, clock.now().getTime() - modified_ms);
    const left_ms = file.ttl_seconds * 1_000 - age_ms;
    if (left_ms <= 0) return expired(file.owner, "expired");
    if (file.pid !== null && readProcess(file.pid) === undefined) return expired(file.owner, "owner_gone");
    return { held: heldBy(file, new Date(modified_ms).toISOString(), left_ms) };
  }

  get held(): HeldLock | undefined {
    const state = this.look();
    return "held" in state ? state.held : undefined;
  }

  /** Takes the lock, or renews it for its owner, and returns it. Throws LockHeld, NoSuchProcess, LockBusy. */
  take({ owner, ttl_seconds, pid }: LockRequest): HeldLock {
    const { machine, clock } = this.#options;
    return this.#guarded(() => {
      const state = this.look();
      if ("held" in state && state.held.owner !== owner) throw new LockHeld(state.held);
      const kept = pid ?? ("held" in state ? state.held.pid : null);
      const process = kept === null ? undefined : readProcess(kept);
      if (kept !== null && process === undefined) throw new NoSuchProcess(`there is no process ${kept} on this robot`);
      const file: LockFile = {
        owner,
        ttl_seconds,
        pid: kept,
        pid_start_time: process?.start_time ?? null,
        boot_id: machine.boot_id,
        taken_uptime_ms: machine.uptime_ms(),
        taken_at: clock.now().toISOString(),
      };
      writeJson(this.#path, file);
      return heldBy(file, file.taken_at, ttl_seconds * 1_000);
    });
  }

  /** Releases the lock; with `owner` undefined, that of any owner. Returns the former owner. Throws LockHeld, LockBusy. */
  release(owner: string | undefined): string | undefined {
    return this.#guarded(() => {
      const state = this.look();
      if ("held" in state && owner !== undefined && state.held.owner !== owner) throw new LockHeld(state.held);
      if ("free" in state) return undefined;
      removeDurably(this.#path);
      return "held" in state ? state.held.owner : undefined;
    });
  }

  /**
   * Removes the lock if it has expired. Returns its owner and why it expired. Throws LockBusy while another process is changing the lock.
   */
  sweep(): { owner: string; reason: ExpiryReason } | undefined {
    if (!("expired" in this.look())) return undefined;
    return this.#guarded(() => {
      // Read the lock again now that other processes are excluded: one of them may have taken it in the meantime.
      const state = this.look();
      if (!("expired" in state)) return undefined;
      removeDurably(this.#path);
      return state.expired;
    });
  }

  /**
   * Runs `change` while all other processes are excluded. If a process was killed during its change, the next one takes over from it.
   * Throws LockBusy.
   */
  #guarded<T>(change: () => T): T {
    let unlock: () => void;
    try {
      unlock = lockState(this.#options.state_directory, `${LOCK_FILE}.guard`);
    } catch (error) {
      if (error instanceof StateLockedError) throw new LockBusy("another process changes the update lock", { cause: error });
      throw error;
    }
    try {
      failpoint("update-lock:guarded", "file");
      const answer = change();
      failpoint("update-lock:changed", "file");
      return answer;
    } finally {
      unlock();
    }
  }
}

const expired = (owner: string, reason: ExpiryReason): LockState => ({ expired: { owner, reason } });

const heldBy = ({ owner, pid, ttl_seconds }: Foreign, taken_at: string, left_ms: number): HeldLock => ({
  owner,
  pid,
  ttl_seconds,
  taken_at,
  expires_in_seconds: Math.ceil(left_ms / 1_000),
});

type Foreign = Pick<LockFile, "owner" | "ttl_seconds" | "pid">;

/** Parses a lock file. An unreadable file counts as a lock for LOCK_UNREADABLE_SECONDS, with an owner that describes the problem. */
function parseLock(text: string): LockFile | Foreign {
  const unreadable: Foreign = { owner: "an unreadable lock file", ttl_seconds: LOCK_UNREADABLE_SECONDS, pid: null };
  const { owner, ttl_seconds, pid, pid_start_time, boot_id, taken_uptime_ms, taken_at } = parseObject(text) ?? {};
  if (typeof owner !== "string" || !isTtl(ttl_seconds)) return unreadable;
  const basic: Foreign = { owner: owner.slice(0, LOCK_OWNER_CHARACTERS_MAX), ttl_seconds, pid: isPid(pid) ? pid : null };
  if (typeof boot_id !== "string" || typeof taken_uptime_ms !== "number" || typeof taken_at !== "string") return basic;
  return { ...basic, pid_start_time: typeof pid_start_time === "number" ? pid_start_time : null, boot_id, taken_uptime_ms, taken_at };
}

export const isTtl = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value >= 1 && value <= LOCK_TTL_SECONDS_MAX;
export const isPid = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;
/** Returns whether a value is a valid owner: 1 to LOCK_OWNER_CHARACTERS_MAX printable characters. The owner appears in logs. */
export const isOwner = (value: unknown): value is string =>
  typeof value === "string" && value.trim() !== "" && value.length <= LOCK_OWNER_CHARACTERS_MAX && !/\p{Cc}/u.test(value);

/** Values of the machine that are the same for all processes and do not depend on the clock. */
export interface Machine {
  readonly boot_id: string;
  /** Returns the milliseconds since boot, including time in suspend. Setting the clock does not change them. */
  uptime_ms(): number;
}

/** Returns the machine that this process runs on. `system_root` is `/` except in tests. */
export function thisMachine(system_root: string): Machine {
  return {
    boot_id: readBootId(system_root),
    uptime_ms: () => {
      try {
        const seconds = Number.parseFloat(readFileSync(join(system_root, "proc/uptime"), "utf8"));
        if (Number.isFinite(seconds)) return Math.round(seconds * 1_000);
      } catch {
        // /proc is not available. The system call below returns the same value.
      }
      return Math.round(uptime() * 1_000);
    },
  };
}
