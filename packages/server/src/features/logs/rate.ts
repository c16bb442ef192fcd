import type { LogRecordBody } from "@robofleet/protocol/link";
import { LRUCache } from "lru-cache";
import type { Plane } from "../../context.ts";
import { RateLimit } from "../../kernel/rate-limit.ts";
import { jsonOfRecords } from "../../link/index.ts";

/** What a flush costs besides its bytes, so that many small ones are no way around the limit. */
const FLUSH_BYTES = 1_024;
/** Robots whose dropped records are still to be told. */
const GAPS_MAX = 50_000;

interface Gap {
  count: number;
  from_seq: number;
  to_seq: number;
}

/**
 * How much each robot may log. What is more is acknowledged and dropped, so that it costs no storage, and a gap record in its place says how many
 * records are missing.
 */
export class LogRate {
  readonly #rate: RateLimit;
  readonly #gaps = new LRUCache<string, Gap>({ max: GAPS_MAX });

  readonly #dropped: Plane["metrics"]["log_records_dropped"];

  constructor({ clock, settings, metrics }: Pick<Plane, "clock" | "settings" | "metrics">) {
    const { log_bytes_per_robot_per_second: per_second, log_burst_bytes_per_robot: burst } = settings.limits;
    this.#dropped = metrics.log_records_dropped;
    this.#rate = new RateLimit(clock, "logs", { per_minute: per_second * 60, burst });
  }

  /** The records to store, behind a gap record when some were dropped before them; undefined when all of them are dropped. */
  admit(robot_id: string, records: LogRecordBody[]): LogRecordBody[] | undefined {
    const [first, last] = [records[0], records.at(-1)];
    if (first === undefined || last === undefined) return records;
    const bytes = jsonOfRecords(records)?.length ?? JSON.stringify(records).length;
    const gap = this.#gaps.get(robot_id);
    if (!this.#rate.tryTake(robot_id, bytes + FLUSH_BYTES)) {
      this.#gaps.set(robot_id, { count: (gap?.count ?? 0) + records.length, from_seq: gap?.from_seq ?? first.seq, to_seq: last.seq });
      this.#dropped.inc(records.length);
      return undefined;
    }
    if (gap === undefined) return records;
    this.#gaps.delete(robot_id);
    // A new spool began since, or the robot sent them again.
    return gap.to_seq >= first.seq ? records : [gapRecord(gap, first.at), ...records];
  }
}

const gapRecord = (gap: Gap, at: string): LogRecordBody => ({
  seq: gap.to_seq,
  at,
  level: "warn",
  source: "robofleet",
  message: `${gap.count} records dropped: the robot logs more than log_bytes_per_robot_per_second`,
  fields: { gap: { count: gap.count, from_seq: gap.from_seq, to_seq: gap.to_seq } },
});

const rates = new WeakMap<Plane["link"], LogRate>();

export function logRateOf(plane: Plane): LogRate {
  let rate = rates.get(plane.link);
  if (rate === undefined) rates.set(plane.link, (rate = new LogRate(plane)));
  return rate;
}
