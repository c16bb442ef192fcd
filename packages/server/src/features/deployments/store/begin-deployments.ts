import type { DeploymentStatus, Reason } from "@roamfleet/protocol";
import type { Db } from "../../../kernel/db.ts";
import { json, sql } from "../../../kernel/sql.ts";
import { deploymentRow } from "./rows.ts";

/** A deployment of which one queued target was dispatched. */
export interface Begun {
  id: string;
  status: DeploymentStatus;
  reason: Reason | null;
  /** 1 for the first attempt of its target, else 0. */
  dispatched: number;
  events: number;
}

/** Moves the counters of many deployments by one target each, and reserves event numbers. The caller has locked the rows. */
export const beginDeployments = (db: Db, org_id: string, begun: readonly Begun[], now: Date) =>
  db.many(sql(deploymentRow)`
    update deployment d set status = b.status, reason = b.reason, event_seq = event_seq + b.events, count_queued = count_queued - 1, count_active = count_active + 1,
      count_dispatched = count_dispatched + b.dispatched, started_at = coalesce(started_at, case when b.status = 'in_progress' then ${now}::timestamptz end), updated_at = ${now}
    from jsonb_to_recordset(${json(begun)}::jsonb) as b (id text, status text, reason text, dispatched int, events int)
    where d.org_id = ${org_id} and d.id = b.id
    returning ${deploymentRow.of("d")}`);
