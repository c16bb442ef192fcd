import assert from "node:assert/strict";
import { isTerminal } from "@roamfleet/protocol";
import { bigint, int, nullable, row, sql, text } from "../../packages/server/src/kernel/sql.ts";
import type { Harness } from "../harness/index.ts";

const COUNTERS = ["pending", "queued", "active", "applied", "failed", "rolled_back", "cancelled"] as const;

const wrongRow = row({ id: text, kept: text, counted: text });
/** Selects deployments whose counters differ from the actual number of their targets in each status, in one snapshot of the database. */
const listWrongCounters = sql(wrongRow)`
  with grouped as (
    select org_id, deployment_id, count(*)::int as total,
      count(*) filter (where status = 'pending')::int as pending, count(*) filter (where status = 'queued')::int as queued,
      count(*) filter (where status in ('dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back'))::int as active,
      count(*) filter (where status = 'applied')::int as applied, count(*) filter (where status = 'failed')::int as failed,
      count(*) filter (where status = 'rolled_back')::int as rolled_back, count(*) filter (where status = 'cancelled')::int as cancelled
    from deployment_target group by org_id, deployment_id),
  compared as (
    select d.id, d.fan_out_done_at is not null as whole,
      array[d.count_pending, d.count_queued, d.count_active, d.count_applied, d.count_failed, d.count_rolled_back, d.count_cancelled] as kept,
      array[coalesce(g.pending, 0), coalesce(g.queued, 0), coalesce(g.active, 0), coalesce(g.applied, 0), coalesce(g.failed, 0), coalesce(g.rolled_back, 0), coalesce(g.cancelled, 0)] as counted,
      d.count_total as kept_total, coalesce(g.total, 0) as counted_total
    from deployment d left join grouped g on g.org_id = d.org_id and g.deployment_id = d.id)
  select id, kept::text || ' of ' || kept_total as kept, counted::text || ' of ' || counted_total as counted from compared
  where kept <> counted or (whole and kept_total <> counted_total) or (not whole and kept_total > 0 and kept_total < counted_total)`;

/** Selects deployments whose counters of reasons differ from the reasons of their ended targets. */
const listWrongReasons = sql(wrongRow)`
  with counted as (
    select t.org_id, t.deployment_id, t.status, coalesce(t.reason, '') as reason, count(*)::int as targets from deployment_target t
    where t.status in ('applied', 'failed', 'rolled_back', 'cancelled') group by 1, 2, 3, 4),
  kept as (
    select d.org_id, d.id as deployment_id, s.key as status, r.key as reason, r.value::int as targets
    from deployment d, jsonb_each(d.reason_counts) s, jsonb_each_text(s.value) r)
  select deployment_id as id, coalesce(k.targets, 0) || ' ' || status || ' ' || reason as kept, coalesce(c.targets, 0)::text as counted
  from kept k full join counted c using (org_id, deployment_id, status, reason)
  where k.targets is distinct from c.targets`;

/** Selects waves whose counters differ from the actual numbers of their targets, and deployments whose number of dispatches is wrong. */
const listWrongWaves = sql(wrongRow)`
  with counted as (
    select t.org_id, t.deployment_id, t.wave, array[count(*), count(*) filter (where t.status = 'pending'), count(*) filter (where t.status = 'queued'),
      count(*) filter (where t.status in ('dispatched', 'downloading', 'staged', 'installing', 'verifying', 'rolling_back')),
      count(*) filter (where t.status = 'applied'), count(*) filter (where t.status = 'failed'), count(*) filter (where t.status = 'rolled_back'),
      count(*) filter (where t.status = 'cancelled')] as counts
    from deployment_target t join deployment d on d.org_id = t.org_id and d.id = t.deployment_id
    where d.fan_out_done_at is not null and d.rollout ? 'waves' group by 1, 2, 3),
  kept as (
    select org_id, deployment_id, wave, array[size, count_pending, count_queued, count_active, count_applied, count_failed, count_rolled_back, count_cancelled]::bigint[] as counts
    from deployment_wave)
  select deployment_id || ' wave ' || wave as id, coalesce(k.counts::text, '') as kept, coalesce(c.counts::text, '') as counted
  from kept k full join counted c using (org_id, deployment_id, wave)
  where k.counts is distinct from c.counts and coalesce(k.counts[1], 0) + coalesce(c.counts[1], 0) > 0
  union all
  select d.id, d.count_dispatched::text, count(t.id)::text from deployment d
  left join deployment_target t on t.org_id = d.org_id and t.deployment_id = d.id and (t.attempt > 0 or t.status = 'failed')
  where d.kind = 'release' group by d.org_id, d.id having d.count_dispatched <> count(t.id)`;

/** Fails if any counter is wrong at present. */
export async function checkCounters({ db }: Harness): Promise<void> {
  assert.deepEqual(await db.many(listWrongCounters), [], `counters in the order ${COUNTERS.join(", ")}`);
  assert.deepEqual(await db.many(listWrongReasons), [], "number of ended targets by reason");
  assert.deepEqual(await db.many(listWrongWaves), [], "counters of each wave, and of the dispatches");
}

const deploymentRow = row({
  id: text,
  status: text,
  target_kind: text,
  event_seq: bigint,
  fan_out_at: nullable(text),
  open: int,
  target_status: nullable(text),
});
const eventRow = row({
  deployment_id: text,
  seq: bigint,
  kind: text,
  status: text,
  target_status: nullable(text),
  target_id: nullable(text),
  attempt: nullable(text),
});

/** Reads deployments and events in one snapshot, so that concurrent changes do not matter. */
const snapshot = ({ db }: Harness) =>
  db.transaction(async (tx) => {
    await tx.run(sql`set transaction isolation level repeatable read`);
    const deployments = await tx.many(sql(deploymentRow)`
      select d.id, d.status, d.target_kind, d.event_seq, d.fan_out_done_at::text as fan_out_at,
        (select count(*)::int from deployment_target t where t.org_id = d.org_id and t.deployment_id = d.id
          and (t.status not in ('applied', 'failed', 'rolled_back', 'cancelled') or (t.status = 'applied' and d.status = 'rolling_back'))) as open,
        (select min(t.status) from deployment_target t where t.org_id = d.org_id and t.deployment_id = d.id) as target_status
      from deployment d`);
    const events = await tx.many(sql(eventRow)`
      select deployment_id, seq, kind, status, target_status, data ->> 'target_id' as target_id, data ->> 'attempt' as attempt
      from deployment_event order by org_id, deployment_id, seq`);
    return { deployments, events };
  });

/**
 * Fails if the events, counters and states of a deployment contradict each other or the rules. With `ended`, also fails if a deployment has
 * not ended.
 */
export async function checkEngine(plane: Harness, options: { ended?: boolean } = {}): Promise<void> {
  await checkCounters(plane);
  const { deployments, events } = await snapshot(plane);
  const by_deployment = Map.groupBy(events, ({ deployment_id }) => deployment_id);
  for (const deployment of deployments) {
    const own = by_deployment.get(deployment.id) ?? [];
    assert.deepEqual(
      own.map(({ seq }) => seq),
      Array.from({ length: deployment.event_seq }, (_, i) => i + 1),
      `${deployment.id}: event numbers without a gap`,
    );
    const of_itself = own.filter(({ target_status }) => target_status === null);
    assert.equal(of_itself.at(-1)?.status, deployment.status, `${deployment.id}: the last event of a deployment carries its status`);
    const ends = own.findIndex(({ status }) => isTerminal(status));
    assert.ok(ends === -1 || ends === own.length - 1, `${deployment.id}: nothing happens after the end`);
    if (deployment.fan_out_at !== null)
      assert.equal(isTerminal(deployment.status), deployment.open === 0, `${deployment.id}: ended exactly when every target has`);
    if (deployment.target_kind === "robot" && isTerminal(deployment.status) && deployment.target_status !== null)
      assert.equal(deployment.status, deployment.target_status, `${deployment.id}: a robot deployment ends as its target`);
    if (options.ended === true) assert.ok(isTerminal(deployment.status), `${deployment.id} is still ${deployment.status}`);
    for (const [target_id, steps] of Map.groupBy(
      own.filter((event) => event.target_id !== null),
      ({ target_id }) => target_id,
    ))
      checkLadder(`${deployment.id} ${target_id}`, steps);
  }
}

const LADDER = ["queued", "dispatched", "downloading", "staged", "installing", "verifying", "rolling_back"];

/**
 * Checks the steps of one target: statuses only advance within an attempt, attempts increase by one, and nothing follows the end. One
 * exception: while its deployment rolls back, applied targets roll back too, as the next attempt.
 */
function checkLadder(name: string, steps: readonly { status: string; target_status: string | null; attempt: string | null }[]): void {
  let [height, attempt] = [0, 0];
  for (const [index, step] of steps.entries()) {
    const status = step.target_status ?? "";
    const now = Number(step.attempt);
    if (isTerminal(status)) {
      const next = steps[index + 1];
      const goes_back = status === "applied" && next?.target_status === "rolling_back" && next.status === "rolling_back";
      assert.ok(next === undefined || goes_back, `${name}: ${status} is its end`);
      if (goes_back) assert.equal(Number(next.attempt), now + 1, `${name}: going back is the next attempt`);
      continue;
    }
    if (status === "rolling_back" && now === attempt + 1 && ["rolling_back", "cancelling"].includes(step.status)) {
      [height, attempt] = [LADDER.indexOf(status), now];
      continue;
    }
    if (status === "queued") height = 0;
    else if (status === "dispatched") {
      assert.equal(now, attempt + 1, `${name}: each dispatch is the next attempt`);
      [height, attempt] = [1, now];
    } else {
      assert.equal(now, attempt, `${name}: ${status} belongs to the present attempt`);
      assert.ok(LADDER.indexOf(status) > height, `${name}: ${status} goes up`);
      height = LADDER.indexOf(status);
    }
  }
}
