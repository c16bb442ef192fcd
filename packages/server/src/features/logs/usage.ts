import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { addUsage, deleteStored, listOverfull, listUsage, type UsageRow } from "./store-usage.ts";

/** How finely it is known what was stored when, and so what goes at a time. */
const PERIOD_MS = 10 * 60_000;
const FLUSH_EVERY_MS = 60_000;
/** What a batch takes beside its records: the header of its row, the columns, its entry in the index. */
const ROW_BYTES = 200;
/** Making room makes more than is needed, so that it is not needed again at once. */
const KEPT_SHARE = 0.95;

/** By org, then by the start of the period. */
type Counted = Map<string, Map<number, number>>;

const planes = new WeakMap<Plane, Counted>();

function countedOf(plane: Plane): Counted {
  let counted = planes.get(plane);
  if (counted === undefined) planes.set(plane, (counted = new Map()));
  return counted;
}

/** Counts a batch that was stored. Kept in memory until the next minute. */
export function countStored(plane: Plane, org_id: string, received_at: Date, packed_bytes: number): void {
  const bytes = packed_bytes + ROW_BYTES;
  plane.metrics.log_bytes_stored.inc(bytes);
  const counted = countedOf(plane);
  let periods = counted.get(org_id);
  if (periods === undefined) counted.set(org_id, (periods = new Map()));
  const period = Math.floor(received_at.getTime() / PERIOD_MS) * PERIOD_MS;
  periods.set(period, (periods.get(period) ?? 0) + bytes);
}

/** Writes down what was counted and makes room where an org has too much, each minute. */
export function startLogUsage(plane: Plane): { stop(): Promise<void> } {
  const work = background(plane, "log bytes", FLUSH_EVERY_MS, async () => {
    await flushUsage(plane);
    await makeRoom(plane);
  });
  return {
    stop: async () => {
      await work.stop();
      await flushUsage(plane).catch((error: unknown) => plane.log.error({ err: error }, "could not write down what logs take"));
    },
  };
}

async function flushUsage(plane: Plane): Promise<void> {
  const counted = countedOf(plane);
  const rows: UsageRow[] = [];
  for (const [org_id, periods] of counted) for (const [at, bytes] of periods) rows.push({ org_id, period_at: new Date(at), bytes });
  counted.clear();
  if (rows.length === 0) return;
  try {
    await addUsage(plane.db, rows);
  } catch (error) {
    for (const { org_id, period_at, bytes } of rows) addBack(counted, org_id, period_at.getTime(), bytes);
    throw error;
  }
}

function addBack(counted: Counted, org_id: string, period: number, bytes: number): void {
  const periods = counted.get(org_id) ?? new Map<number, number>();
  counted.set(org_id, periods.set(period, (periods.get(period) ?? 0) + bytes));
}

async function makeRoom({ db, settings, log, metrics, clock }: Plane): Promise<void> {
  const bytes_max = settings.limits.log_bytes_per_org_max;
  if (bytes_max === 0) return;
  for (const { org_id, bytes } of await listOverfull(db, bytes_max)) {
    const of_org = db.forOrg(org_id);
    // What is written to now stays: it is counted only in part.
    const now = Math.floor(clock.now().getTime() / PERIOD_MS) * PERIOD_MS;
    let dropped = 0;
    for (const period of await listUsage(of_org, org_id)) {
      const from = period.period_at;
      if (bytes - dropped <= bytes_max * KEPT_SHARE || from.getTime() >= now) break;
      const before = new Date(from.getTime() + PERIOD_MS);
      await deleteStored(of_org, org_id, from, before);
      dropped += period.bytes;
      log.warn(
        { org_id, before: before.toISOString(), bytes: period.bytes, bytes_max },
        "dropped the oldest logs of an org that has too many",
      );
      metrics.log_bytes_dropped.inc(period.bytes);
    }
  }
}
