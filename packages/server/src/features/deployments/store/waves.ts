import type { Db } from "../../../kernel/db.ts";
import { json, sql } from "../../../kernel/sql.ts";
import type { Counts } from "../state.ts";
import { waveRow } from "./rows.ts";

export type WaveDelta = Counts & { wave: number };

/** Moves the counters of these waves and answers them; a wave that is not written yet counts its targets when it is. */
export const moveWaveCounters = (db: Db, org_id: string, deployment_id: string, deltas: readonly WaveDelta[]) =>
  db.many(sql(waveRow)`
    update deployment_wave w set count_pending = w.count_pending + c.pending, count_queued = w.count_queued + c.queued, count_active = w.count_active + c.active,
      count_applied = w.count_applied + c.applied, count_failed = w.count_failed + c.failed, count_rolled_back = w.count_rolled_back + c.rolled_back,
      count_cancelled = w.count_cancelled + c.cancelled
    from jsonb_to_recordset(${json(deltas)}::jsonb)
      as c (wave int, pending int, queued int, active int, applied int, failed int, rolled_back int, cancelled int)
    where w.org_id = ${org_id} and w.deployment_id = ${deployment_id} and w.wave = c.wave
    returning ${waveRow.of("w")}`);
