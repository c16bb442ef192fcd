import type { DeploymentStatus } from "@roamfleet/protocol";
import type { Actor, ReportedDeployment, TargetSelector } from "@roamfleet/protocol/routes";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, int, jsonb, nullable, type RowOf, sql, text, textOf, wiredRow, timestamptz } from "../../kernel/sql.ts";
import { selectionTexts } from "../deployments/index.ts";
import { newestOfEach, partOf, rankColumns, ROWS_MAX } from "./part.ts";

const deploymentRow = wiredRow({
  part: textOf<"started" | "finished" | "failed" | "open">(),
  id: text,
  kind: textOf<"release" | "config">(),
  name: text,
  robot_id: nullable(text),
  fleet_id: nullable(text),
  target_selector: nullable(jsonb<TargetSelector>()),
  target_name: text,
  status: textOf<DeploymentStatus>(),
  reason: nullable(text),
  waiting_gate: bool,
  count_total: int,
  count_applied: int,
  count_failed: int,
  count_rolled_back: int,
  created_by: jsonb<Actor>(),
  at: timestamptz,
  ...rankColumns,
});

/** Condition: the deployment was requested, not created for a robot that follows its fleet. The text is that of its partial index. */
const REQUESTED = sql`(target_kind <> 'robot' or created_by ->> 'type' is distinct from 'system')`;

/**
 * Returns the deployments that started, finished or failed since a time, and the unfinished ones. Reads the newest `ROWS_MAX` releases and
 * configs, and as many finished and unfinished deployments.
 */
export async function readDeployments(db: Db, caller: Caller, since: Date) {
  const { org_id } = caller;
  // reads tables of other features: deployment, deployment_target, release, robot, fleet
  const rows = await db.many(sql(deploymentRow)`
    with recent as materialized (
      (select id, started_at, created_at from deployment where org_id = ${org_id} and kind = 'release' and ${REQUESTED} order by id desc limit ${ROWS_MAX})
      union all
      (select id, started_at, created_at from deployment where org_id = ${org_id} and kind = 'config' and ${REQUESTED} order by id desc limit ${ROWS_MAX})
    ), finished as materialized (
      select id from deployment where org_id = ${org_id} and finished_at >= ${since} and ${REQUESTED} order by finished_at desc limit ${ROWS_MAX}
    ), unfinished as materialized (
      select id from deployment where org_id = ${org_id} and finished_at is null and ${REQUESTED} order by id desc limit ${ROWS_MAX}
    ), seen as materialized (
      select d.*, coalesce(r.site_id, f.site_id, d.target_selector ->> 'site_id') as site, coalesce(r.fleet_id, f.id) as fleet, coalesce(r.name, f.name, d.robot_id, d.fleet_id, '') as target_name
      from (select id from recent where started_at >= ${since} union select id from finished union select id from unfinished) i
      -- The limit makes PostgreSQL look up single deployments, instead of scanning all of them.
      cross join lateral (select * from deployment where org_id = ${org_id} and id = i.id limit 1) d
      left join robot r on r.org_id = d.org_id and r.id = d.robot_id
      left join fleet f on f.org_id = d.org_id and f.id = coalesce(d.fleet_id, d.target_selector ->> 'fleet_id')
    ), part as (
      select s.*, p.part, p.at from seen s cross join lateral (
        select 'started' as part, s.started_at as at where s.started_at >= ${since}
        union all select 'finished', s.finished_at where s.finished_at >= ${since}
        union all select 'failed', s.finished_at where s.finished_at >= ${since}
          and (s.status = 'failed' or s.status = 'rolled_back' and s.reason is distinct from 'rollback_requested')
        union all select 'open', coalesce(s.started_at, s.created_at) where s.finished_at is null) p
      where true ${visible(caller, "s.site", "s.fleet")})
    select n.part, n.id, n.kind, coalesce((select tag from release where org_id = ${org_id} and id = n.release_id), n.namespace, n.release_id, 'all namespaces') as name, n.robot_id, n.fleet_id, n.target_selector, n.target_name, n.status, n.reason,
      exists (select from deployment_target t where t.org_id = ${org_id} and t.deployment_id = n.id and t.waiting_for = 'gate') as waiting_gate,
      n.count_total, n.count_applied, n.count_failed, n.count_rolled_back, n.created_by, n.at, n.total,
      case n.part when 'open' then (select count(*) from unfinished) = ${ROWS_MAX}
        when 'started' then (select coalesce(bool_or(full_since >= ${since}), false) from (select min(created_at) as full_since from recent having count(*) >= ${ROWS_MAX}) w)
        else (select count(*) from finished) = ${ROWS_MAX} end as truncated
    from (${newestOfEach(sql`select * from part`)}) n
    order by n.at desc, n.id desc`);
  const selections = await selectionTexts(
    db,
    org_id,
    rows.map(({ target_selector }) => target_selector),
  );
  const named = rows.map((row, i) => ({ ...row, target_name: selections[i] ?? row.target_name }));
  const part = (name: string) =>
    partOf(
      named.filter((row) => row.part === name),
      toItem,
    );
  return { started: part("started"), finished: part("finished"), failed: part("failed"), open: part("open") };
}

function toItem({
  part: _,
  total: _total,
  truncated: _truncated,
  target_selector: _selector,
  count_total: total,
  count_applied: applied,
  count_failed: failed,
  count_rolled_back: rolled_back,
  ...rest
}: RowOf<typeof deploymentRow>): ReportedDeployment {
  return { ...rest, counts: { total, applied, failed, rolled_back } };
}
