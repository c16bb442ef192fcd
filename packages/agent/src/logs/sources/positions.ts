import { join } from "node:path";
import type { Clock, Timer } from "@roamfleet/clock";
import type { Logger } from "pino";
import { errorText, readJson, writeJson } from "../../disk/write-atomically.ts";

/** How long records may be in the spool before the place behind them is on the disk: what kill -9 repeats. */
const SAVE_AFTER_MS = 1_000;

export interface PositionsOptions {
  state_directory: string;
  clock: Clock;
  log: Logger;
  /** Puts on the disk what was written to the spool: a position must never be ahead of it. */
  sync: () => void;
}

/**
 * How far each source was read, on disk: saved behind the records, never before them, so that a robot that dies sends some of them
 * twice and none of them never.
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
    const damaged = (): void => options.log.warn("the positions of log sources were damaged: they are read from now on");
    const value = readJson(this.#path, damaged);
    this.#stored = typeof value === "object" && value !== null ? { ...value } : {};
  }

  /** What a source saved before; undefined: nothing. It comes from the disk: to be checked. */
  stored(name: string): unknown {
    return this.#stored[name];
  }

  /** When positions were last saved, milliseconds since 1970; undefined: never. */
  get saved_at_ms(): number | undefined {
    const { saved_at_ms } = this.#stored;
    return typeof saved_at_ms === "number" ? saved_at_ms : undefined;
  }

  /** `state` is asked whenever positions are saved. */
  provide(name: string, state: () => unknown): void {
    this.#providers.set(name, state);
  }

  /** A source has moved on. */
  moved(): void {
    this.#timer ??= this.#options.clock.setTimer(SAVE_AFTER_MS, () => this.save());
  }

  /** Now. A disk that refuses is asked again with the next move. */
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
