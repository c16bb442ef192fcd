import type { Activity, Clock, Timer } from "@roamfleet/clock";
import { ChunkError, encodeChunk, LABEL_VALUE_BYTES_MAX, METRIC_NAME_BYTES_MAX, type Series } from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { Value } from "./system-values.ts";

/** Maximum series that are collected between two flushes. Further ones are counted and not collected. */
export const SERIES_MAX = 500;
/** Characters that Prometheus does not allow in a name. */
const NOT_IN_NAME = /[^a-zA-Z0-9_]/g;

export interface SampleCollectorOptions {
  /** Seconds between two measurements, and between two flushes. */
  interval_seconds: number;
  flush_seconds: number;
  /** Returns the current values. */
  read: () => Promise<readonly Value[]>;
  /** Takes the encoded samples of a flush. */
  write: (chunk: Buffer) => void;
  clock: Clock;
  /** Counts a measurement as pending work. */
  activity: Activity;
  /** Returns the server's time in milliseconds since 1970, as the robot knows it. */
  server_time: () => number;
  log: Pick<Logger, "error" | "warn">;
}

interface Collected {
  name: string;
  labels: Record<string, string>;
  /** Milliseconds of the monotonic clock. */
  times: number[];
  values: number[];
}

/**
 * Measures values at an interval, and passes what it has collected to `write` as one chunk at each flush. Times are kept on the monotonic
 * clock until the flush. So the samples of a robot that starts with a wrong clock have right times once it has heard the server's time.
 */
export class SampleCollector {
  readonly #options: SampleCollectorOptions;
  #series = new Map<string, Collected>();
  #timers: Timer[] = [];
  #omitted = 0;

  constructor(options: SampleCollectorOptions) {
    this.#options = options;
  }

  start(): void {
    const { clock, interval_seconds, flush_seconds } = this.#options;
    this.#timers = [
      clock.every(interval_seconds * 1_000, () => void this.#collect()),
      clock.every(flush_seconds * 1_000, () => this.flush()),
    ];
  }

  /** Flushes what was collected, and stops. */
  stop(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers = [];
    this.flush();
  }

  async #collect(): Promise<void> {
    const { read, clock, activity, log } = this.#options;
    const ended = activity.begin();
    try {
      const values = await read();
      const time = clock.monotonic();
      for (const value of values) this.#add(value, time);
    } catch (error) {
      log.error({ reason: errorText(error) }, "could not measure the values of metrics");
    } finally {
      ended();
    }
  }

  #add({ name, labels, value }: Value, time: number): void {
    const own_name = name.replace(NOT_IN_NAME, "_").slice(0, METRIC_NAME_BYTES_MAX);
    const own_labels = Object.fromEntries(Object.entries(labels).map(([label, text]) => [label, truncated(text)]));
    const key = JSON.stringify([own_name, own_labels]);
    let series = this.#series.get(key);
    if (series === undefined) {
      if (this.#series.size >= SERIES_MAX) {
        this.#omitted += 1;
        return;
      }
      this.#series.set(key, (series = { name: own_name, labels: own_labels, times: [], values: [] }));
    }
    series.times.push(time);
    series.values.push(value);
  }

  /** Passes the collected samples to `write`; in several chunks if they are too many for one. */
  flush(): void {
    const collected = [...this.#series.values()];
    this.#series = new Map();
    const { clock, server_time, log } = this.#options;
    if (this.#omitted > 0) log.warn({ samples: this.#omitted, series_max: SERIES_MAX }, "samples of too many series were not collected");
    this.#omitted = 0;
    if (collected.length === 0) return;
    const offset = server_time() - clock.monotonic();
    this.#write(collected.map((one) => ({ ...one, times: one.times.map((time) => Math.max(0, Math.round(time + offset))) })));
  }

  #write(series: readonly Series[]): void {
    const { write, log } = this.#options;
    try {
      write(encodeChunk(series));
    } catch (error) {
      if (!(error instanceof ChunkError) || series.length === 1)
        return log.error({ reason: errorText(error) }, "samples could not be stored");
      const half = Math.ceil(series.length / 2);
      this.#write(series.slice(0, half));
      this.#write(series.slice(half));
    }
  }
}

/** Cuts a label's value to its maximum bytes. An empty value becomes `-`, since a label without a value means no label. */
function truncated(text: string): string {
  const bytes = Buffer.from(text === "" ? "-" : text.toWellFormed());
  // With `stream`, the decoder omits a character whose bytes were cut.
  return new TextDecoder().decode(bytes.subarray(0, LABEL_VALUE_BYTES_MAX), { stream: true });
}
