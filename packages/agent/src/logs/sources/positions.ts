import { join } from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText, readJson, writeJson } from "../../disk/write-atomically.ts";
import { fieldsOf } from "../../json.ts";

/**
 * Maximum delay between writing records to the spool and saving the position after them. If the agent is killed in between, it sends these
 * records again.
 */
const SAVE_AFTER_MS = 1_000;

interface PositionsOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
  /** Flushes the spool to disk. Called before a save, since a saved position must never be ahead of the records on disk. */
  sync: () => void;
}

/**
 * Stores on disk how far each log source has been read. Positions are always saved after the records. So if the robot loses power, some
 * records are sent twice but none is lost.
 */
export class Positions {
  readonly #options: PositionsOptions;
  readonly #path: string;
  readonly #providers = new Map<string, () => unknown>();
  readonly #stored: Record<string, unknown>;
  #timer: Timer | undefined;
  #failed = false;

  constructor(options: PositionsOptions) {
    this.#options = options;
    this.#path = join(options.state_directory, "log-positions.json");
    const damaged = (): void => options.log.warn("the saved positions of log sources are damaged: only new records are read");
    this.#stored = { ...fieldsOf(readJson(this.#path, damaged)) };
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

  /** Schedules a save. Called when a source has read further. */
  moved(): void {
    this.#timer ??= this.#options.clock.setTimer(SAVE_AFTER_MS, () => this.save());
  }

  /** Saves all positions now. If that fails, the next change saves them again. */
  save(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const [name, state] of this.#providers) this.#stored[name] = state();
    this.#stored["saved_at_ms"] = this.#options.clock.now().getTime();
    try {
      this.#options.sync();
      writeJson(this.#path, this.#stored);
      this.#failed = false;
    } catch (error) {
      if (!this.#failed) this.#options.log.error({ reason: errorText(error) }, "could not save the positions of log sources");
      this.#failed = true;
    }
  }

  close(): void {
    if (this.#timer !== undefined) this.save();
  }
}
