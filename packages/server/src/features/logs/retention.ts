import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import type { Db } from "../../kernel/db.ts";
import { deleteUsage } from "./store-usage.ts";
import { startLogUsage } from "./usage.ts";
import { createPartition, deleteFromDefault, dropPartition, exclusively, listPartitions } from "./store-partitions.ts";

const DAY_MS = 86_400_000;
const DAYS_AHEAD = 7;
const EVERY_MS = 3_600_000;
const PARTITION = /^log_batch_(\d{4})(\d{2})(\d{2})$/;

/**
 * Makes the partitions of the coming days and drops those whose logs are too old: now, and each hour. Each minute drops the oldest logs of orgs
 * that have too many.
 */
export async function startLogRetention(plane: Plane): Promise<{ stop(): Promise<void> }> {
  const work = background(plane, "log partitions", EVERY_MS, () => keepPartitions(plane));
  // When this fails it is logged and tried again: the default partition takes what comes.
  work.wake();
  await work.settled();
  const usage = startLogUsage(plane);
  return { stop: async () => void (await Promise.all([work.stop(), usage.stop()])) };
}

/** Once; two nodes may do it at the same time. */
async function keepPartitions({ db, clock, settings, log }: Plane): Promise<void> {
  const today = Math.floor(clock.now().getTime() / DAY_MS) * DAY_MS;
  const present = await listPartitions(db);
  for (let ahead = 0; ahead <= DAYS_AHEAD; ahead += 1) {
    const day = new Date(today + ahead * DAY_MS);
    if (!present.includes(nameOf(day))) await makePartition(db, day);
  }
  // The days of retention are whole ones, beside today.
  const oldest = new Date(today - settings.limits.log_retention_days * DAY_MS);
  for (const name of present) {
    const day = dayOf(name);
    if (day === undefined || day >= oldest) continue;
    await exclusively(db, (tx) => dropPartition(tx, name));
    log.info({ partition: name }, "dropped old logs");
  }
  await deleteFromDefault(db, oldest);
  await deleteUsage(db, oldest);
}

const makePartition = (db: Db, day: Date): Promise<void> =>
  exclusively(db, async (tx) => {
    // Another node may have been faster.
    if (!(await listPartitions(tx)).includes(nameOf(day))) await createPartition(tx, nameOf(day), day, new Date(day.getTime() + DAY_MS));
  });

const nameOf = (day: Date): string => `log_batch_${day.toISOString().slice(0, 10).replaceAll("-", "")}`;

function dayOf(name: string): Date | undefined {
  const [, year, month, day] = PARTITION.exec(name) ?? [];
  return year === undefined ? undefined : new Date(`${year}-${month}-${day}T00:00:00Z`);
}
