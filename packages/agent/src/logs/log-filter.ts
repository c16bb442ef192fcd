import type { Clock } from "@roamfleet/clock";
import { LOG_LEVELS } from "@roamfleet/protocol/link";
import type { LogFilterRule } from "../config-file/robot-config.ts";
import type { LogRecord, LogSink } from "../contract.ts";
import { LogRateLimiter, SOURCE_LIMITS } from "./log-rate-limiter.ts";

/** Source of the agent's records about missing records. They are never filtered. */
const REPORTS = "roamfleet";
/** A source may write a burst of as many records as its rate allows in this many seconds. */
const BURST_SECONDS = 10;
const RECORDS_BURST_MIN = 10;
const REPORT_AFTER_MS = 60_000;

interface Filter {
  matches: (source: string) => boolean;
  /** Index in LOG_LEVELS of the lowest level that is kept. */
  level: number;
  limiter: LogRateLimiter | undefined;
}

/** Filters the records of all sources by the rules of the robot's config file. The first rule that matches a record's source applies. */
export class LogFilter implements LogSink {
  readonly #sink: LogSink;
  readonly #clock: Clock;
  readonly #filters: readonly Filter[];

  constructor({ rules, sink, clock }: { rules: readonly LogFilterRule[]; sink: LogSink; clock: Clock }) {
    this.#sink = sink;
    this.#clock = clock;
    this.#filters = rules.map(({ source, level, records_per_second }) => ({
      matches: (name) => matchesName(source, name),
      level: level === undefined ? 0 : LOG_LEVELS.indexOf(level),
      limiter: records_per_second === undefined ? undefined : this.#limiter(records_per_second),
    }));
  }

  #limiter(records_per_second: number): LogRateLimiter {
    const records_burst = Math.max(RECORDS_BURST_MIN, records_per_second * BURST_SECONDS);
    return new LogRateLimiter(this.#sink, this.#clock, {
      ...SOURCE_LIMITS,
      records_per_second,
      records_burst,
      report_after_ms: REPORT_AFTER_MS,
    });
  }

  /**
   * Writes the record, or drops it. Records below the level are dropped without a trace. Records over the rate are dropped too, but the log
   * contains their number. The rate is computed from the records' own times, so that lines that are read late do not count as a burst.
   */
  write(record: LogRecord): void {
    const filter = record.source === REPORTS ? undefined : this.#filters.find(({ matches }) => matches(record.source));
    if (filter === undefined) return this.#sink.write(record);
    if (LOG_LEVELS.indexOf(record.level) < filter.level) return;
    if (filter.limiter === undefined) return this.#sink.write(record);
    filter.limiter.write(record, (record.at ?? this.#clock.now()).getTime());
  }

  /** Reports the records that were dropped and not reported yet. */
  close(): void {
    for (const { limiter } of this.#filters) limiter?.close();
  }
}

/** Returns whether a name matches a pattern in which `*` stands for any characters, also slashes. Case matters. */
function matchesName(pattern: string, name: string): boolean {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  if (last === undefined) return name === pattern;
  if (!name.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = name.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return name.length - last.length >= at && name.endsWith(last);
}
