import type { Activity, Clock, Timer } from "@roamfleet/clock";
import {
  ChunkError,
  encodeChunk,
  LABEL_VALUE_BYTES_MAX,
  METRIC_NAME_BYTES_MAX,
  SAMPLES_PER_CHUNK_MAX,
  type Series,
} from "@roamfleet/protocol/link";
import type { Logger } from "pino";
import { errorText } from "../disk/write-atomically.ts";
import type { Value } from "./system-values.ts";

/**
 * Maximum series in memory. Further ones are counted and not collected. A series is in memory until a whole flush interval has passed
 * without a sample.
 */
export const SERIES_MAX = 500;
/** Maximum series of all sources together, and of one source. The others are for the robot's own values. */
export const SOURCE_SERIES_MAX = { all: 400, each: 200 };
/** Minimum time between two samples of a series of a source. It bounds the samples of a source that sends as fast as it can. */
export const SPACING_MS_MIN = 500;
/** The source of the robot's own values. */
const AGENT = "agent";
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
  source: string;
  /** When the last sample was taken, in milliseconds of the monotonic clock. */
  last: number;
  /** When each sample was taken, in milliseconds of the monotonic clock. */
  times: number[];
  values: number[];
}

/**
 * Measures values at an interval, and passes what it has collected to `write` as one chunk at each flush. Times are kept on the monotonic
 * clock until the flush. So the samples of a robot that starts with a wrong clock have right times once it has heard the server's time.
 */
export class SampleCollector {
  readonly #options: SampleCollectorOptions;
  readonly #series = new Map<string, Collected>();
  /** Number of series by source. */
  readonly #counts = new Map<string, number>();
  #samples = 0;
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
      for (const value of values) this.addOwn(value, time);
    } catch (error) {
      log.error({ reason: errorText(error) }, "could not measure the values of metrics");
    } finally {
      ended();
    }
  }

  /** Adds a value of the robot itself. Name and labels are made valid. */
  addOwn({ name, labels, value }: Value, time: number): void {
    const own_name = name.replace(NOT_IN_NAME, "_").slice(0, METRIC_NAME_BYTES_MAX);
    const own_labels = Object.fromEntries(Object.entries(labels).map(([label, text]) => [label, truncated(text)]));
    if (this.add({ name: own_name, labels: own_labels, value }, time, AGENT) === "series") this.#omitted += 1;
  }

  /** Adds a sample with valid name and labels. `time` is on the monotonic clock. Returns why the sample was not added. */
  add({ name, labels, value }: Value, time: number, source: string): "series" | "time" | "duplicate" | undefined {
    const key = JSON.stringify([name, Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1))]);
    const series = this.#series.get(key) ?? this.#open(key, source);
    if (series === undefined) return "series";
    if (source !== AGENT) {
      if (series.source !== source) return "duplicate";
      if (time <= series.last - SPACING_MS_MIN) return "time";
      if (time < series.last + SPACING_MS_MIN) return "duplicate";
    }
    series.times.push((series.last = time));
    series.values.push(value);
    this.#samples += 1;
    if (this.#samples >= SAMPLES_PER_CHUNK_MAX) this.flush();
    return undefined;
  }

  /** Returns a new series; undefined if there are too many. */
  #open(key: string, source: string): Collected | undefined {
    const count = this.#counts.get(source) ?? 0;
    const own_count = this.#counts.get(AGENT) ?? 0;
    const is_full = source !== AGENT && (count >= SOURCE_SERIES_MAX.each || this.#series.size - own_count >= SOURCE_SERIES_MAX.all);
    if (is_full || this.#series.size >= SERIES_MAX) return undefined;
    // Take the texts from the key: those of the caller may be parts of a large string, which would stay in memory.
    const [name, pairs] = JSON.parse(key) as [string, [string, string][]];
    const series = { name, labels: Object.fromEntries(pairs), source, last: -Infinity, times: [], values: [] };
    this.#series.set(key, series);
    this.#counts.set(source, count + 1);
    return series;
  }

  /** Passes the collected samples to `write`; in several chunks if they are too many for one. */
  flush(): void {
    const { clock, server_time, log } = this.#options;
    if (this.#omitted > 0) log.warn({ samples: this.#omitted, series_max: SERIES_MAX }, "samples of too many series were not collected");
    this.#omitted = 0;
    const offset = server_time() - clock.monotonic();
    const collected: Series[] = [];
    for (const [key, series] of this.#series) {
      const { name, labels, source, times, values } = series;
      if (times.length === 0) {
        this.#series.delete(key);
        this.#counts.set(source, (this.#counts.get(source) ?? 1) - 1);
        continue;
      }
      collected.push({ name, labels, times: times.map((time) => Math.max(0, Math.round(time + offset))), values });
      series.times = [];
      series.values = [];
    }
    this.#samples = 0;
    if (collected.length > 0) this.#write(collected);
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
