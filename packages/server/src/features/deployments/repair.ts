import { isConnectionLost } from "../../engines/db/index.ts";
import type { SystemDb } from "../../kernel/db.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import type { Postponed } from "./each-apart.ts";
import { listMissed, MISSABLE, MISSED_PER_TURN, wakeMissed } from "./store/missed.ts";
import type { Engine } from "./transition.ts";

/**
 * Background: wakes targets whose awaited condition already holds, in case a wake-up was lost. Returns how many it woke, and whether there
 * may be more.
 */
export async function repairWaits(
  db: SystemDb,
  { clock, log }: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
): Promise<{ woken: number; more: boolean }> {
  const done = { woken: 0, more: false };
  for (const waiting_for of MISSABLE) {
    const missed = await listMissed(db, waiting_for, postponed.ids(clock.now()));
    let woken = 0;
    const failures = await isolateFailures(missed, isConnectionLost, async (some) => {
      woken += await wakeMissed(db, waiting_for, some);
    });
    for (const { org_id, id } of failures?.failed ?? [])
      if (postponed.failed(id, clock.now())) log.error({ err: failures?.error, org_id, id }, "background work failed for one item");
    done.woken += woken;
    done.more ||= woken === MISSED_PER_TURN;
  }
  return done;
}
