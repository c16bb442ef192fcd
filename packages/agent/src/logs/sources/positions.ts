import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText, readJson, writeJson, writeQuickly } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";

/**
 * Maximum delay between writing records to the spool and noting the position after them. If the agent is killed in between, it sends these
 * records again.
 */
const NOTE_AFTER_MS = 1_000;
/** Interval of durable saves while records are read. After a power loss, the agent sends the records since the last one again. */
const SAVE_EVERY_MS = 30_000;
/**
 * Interval and maximum number of checks whether the server has acknowledged the records of a save. After the last check, the save flushes
 * the records to the disk.
 */
const ACK_LOOK_MS = 5_000;
const ACK_LOOKS_MAX = 5;

/** The methods of the spool that saving positions needs. */
export interface SafeSpool {
  /** Number of the newest record. */
  readonly last_seq: number;
  /** Whether all records would survive the end of this process. */
  readonly is_written: boolean;
  isAcknowledged(seq: number): boolean;
  /** Flushes the spool to disk. Throws if that fails. */
  sync(): void;
}

interface PositionsOptions {
  state_directory: string;
  /** Directory of the file with noted positions. */
  recent_directory: string;
  /** Id of the machine's current boot. Positions that were noted during another boot are ignored. */
  boot_id: string;
  clock: Clock;
  log: Logger;
  /** A saved position must never be ahead of the records that are on disk or at the server. */
  spool: SafeSpool;
}

/**
 * Stores how far each log source has been read. Positions are always saved after the records. So if the robot loses power, some records are
 * sent twice but none is lost. Saves are rare, because each costs two fsyncs. In between, positions are noted in a file without fsync, which
 * survives `kill -9` but is not used after a reboot.
 */
export class Positions {
  readonly #options: PositionsOptions;
  readonly #path: string;
  readonly #providers = new Map<string, () => unknown>();
  readonly #stored: Record<string, unknown>;
  readonly #recent_path: string;
  #note_timer: Timer | undefined;
  #save_timer: Timer | undefined;
  #failed = false;

  constructor(options: PositionsOptions) {
    this.#options = options;
    this.#path = join(options.state_directory, "log-positions.json");
    const damaged = (): void => options.log.warn("the saved positions of log sources are damaged: only new records are read");
    this.#recent_path = join(options.recent_directory, "log-positions-recent.json");
    const { boot_id, positions } = fieldsOf(readJson(this.#recent_path));
    const is_recent = boot_id === options.boot_id && positions !== undefined;
    this.#stored = { ...(is_recent ? fieldsOf(positions) : fieldsOf(readJson(this.#path, damaged))) };
  }

  /** Returns the saved value of a source; undefined if there is none. The caller must validate the value. */
  stored(name: string): unknown {
    return this.#stored[name];
  }

  /** When positions were last saved, milliseconds since 1970; undefined: never. */
  get saved_at_ms(): number | undefined {
    const { saved_at_ms } = this.#stored;
    return typeof saved_at_ms === "number" ? saved_at_ms : undefined;
  }

  /** Registers a source. Each save calls `state` and stores its result as the source's value. */
  provide(name: string, state: () => unknown): void {
    this.#providers.set(name, state);
  }

  /** Schedules a note and a save. Called when a source has read further. */
  moved(): void {
    const { clock } = this.#options;
    this.#note_timer ??= clock.setTimer(NOTE_AFTER_MS, () => this.#note());
    this.#save_timer ??= clock.setTimer(SAVE_EVERY_MS, () => this.#saveAcknowledged(this.#collect(), this.#options.spool.last_seq));
  }

  /** Saves all positions now. If that fails, the next change saves them again. */
  save(): void {
    this.#note_timer?.cancel();
    this.#note_timer = undefined;
    this.#save_timer?.cancel();
    this.#save_timer = undefined;
    this.#attempt(() => {
      const positions = this.#collect();
      this.#options.spool.sync();
      writeJson(this.#path, positions);
      rmSync(this.#recent_path, { force: true });
    });
  }

  close(): void {
    if (this.#note_timer !== undefined || this.#save_timer !== undefined) this.save();
  }

  #collect(): Record<string, unknown> {
    for (const [name, state] of this.#providers) this.#stored[name] = structuredClone(state());
    this.#stored["saved_at_ms"] = this.#options.clock.now().getTime();
    return { ...this.#stored };
  }

  /** Writes the positions without fsync. Does nothing while records are only in the memory of this process. */
  #note(): void {
    this.#note_timer = undefined;
    const { spool, boot_id } = this.#options;
    this.#attempt(() => {
      if (spool.is_written) writeQuickly(this.#recent_path, { boot_id, positions: this.#collect() });
    });
  }

  /** Saves the positions once the server has all records before them, so that the spool need not write these records to the disk. */
  #saveAcknowledged(positions: Record<string, unknown>, last_seq: number, looks = 0): void {
    const { clock, spool } = this.#options;
    const is_safe = spool.isAcknowledged(last_seq);
    if (!is_safe && looks < ACK_LOOKS_MAX) {
      this.#save_timer = clock.setTimer(ACK_LOOK_MS, () => this.#saveAcknowledged(positions, last_seq, looks + 1));
      return;
    }
    this.#save_timer = undefined;
    this.#attempt(() => {
      if (!is_safe) spool.sync();
      writeJson(this.#path, positions);
    });
  }

  #attempt(write: () => void): void {
    try {
      write();
      this.#failed = false;
    } catch (error) {
      if (!this.#failed) this.#options.log.error({ reason: errorText(error) }, "could not save the positions of log sources");
      this.#failed = true;
    }
  }
}
