import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { atRest, ratioOf, sample } from "../measure.ts";
import type { Rig } from "../rig.ts";
import { insertFleet, insertRelease } from "../robots.ts";
import type { Row } from "../row.ts";

const DEPLOYMENTS = 1_000;
const QUICK_DEPLOYMENTS = 100;
const ROUNDS = 7;
/** Deployments per transaction, as in the server. */
const BATCH = 250;
const AHEAD_MS = 2_000;
const POLL_MS = 2;
const DONE_TIMEOUT_MS = 180_000;
const RATIO_MAX = 1.5;

/** Deployments to one robot each, all due at the same time. */
async function schedule(rig: Rig, client: pg.Client, release: string, round: string, count: number, due_at: Date): Promise<void> {
  // Dispatch cancels deployments whose creator has lost access, so the creator is a valid token of this org.
  const created_by = JSON.stringify((await rig.api.getMe()).data.actor);
  await client.query("begin");
  await client.query(
    `insert into deployment (org_id, id, kind, target_kind, robot_id, release_id, app, status, scheduled_at, event_seq, created_by, created_at, updated_at)
     select $1, 'dep_' || $2 || '_' || n, 'release', 'robot', 'rob_' || lpad(n::text, 26, '0'), $3, 'main', 'scheduled', $4, 0, $6::jsonb, now(), now()
     from generate_series(1, $5::int) n`,
    [rig.org_id, round, release, due_at, count, created_by],
  );
  await client.query(
    "insert into deployment_due (org_id, id, due_at) select org_id, id, $2 from deployment where org_id = $1 and status = 'scheduled'",
    [rig.org_id, due_at],
  );
  await client.query("commit");
}

/** Creates one of the due deployments through the API. This notifies the server of the due time, which SQL alone does not. */
async function announce(rig: Rig, release: string, scheduled_at: Date): Promise<string> {
  const { data } = await rig.api.createDeployment({
    body: { release, robot_id: `rob_${"1".padStart(26, "0")}`, scheduled_at: scheduled_at.toISOString() },
    idempotency_key: randomUUID(),
  });
  return data.id;
}

async function ours(rig: Rig, client: pg.Client, release: string, round: string, count: number): Promise<number> {
  const due_at = new Date(Date.now() + AHEAD_MS);
  await schedule(rig, client, release, round, count, due_at);
  await announce(rig, release, new Date(due_at.getTime() - 1));
  await sleep(due_at.getTime() - Date.now());
  const started = performance.now();
  // This query uses the index of statuses. Reading all deployments every 2 ms would use a considerable part of a core.
  const left = "select 1 from deployment where org_id = $1 and kind = 'release' and status in ('scheduled', 'queued') limit 1";
  while ((await client.query({ name: "left", text: left, values: [rig.org_id] })).rowCount !== 0) {
    if (performance.now() - started > DONE_TIMEOUT_MS) throw new Error("what was due was not dispatched in time");
    await sleep(POLL_MS);
  }
  return performance.now() - started;
}

/**
 * The limit: starts and dispatches a batch with one statement, which writes the same nine rows for each deployment. It decides nothing,
 * checks no permission and locks no robot.
 */
const START = `
  with due as (
    delete from deployment_due where org_id = $1 and id = any(array(
      select id from deployment_due where org_id = $1 order by coalesce(not_before_at, due_at) limit ${BATCH} for update skip locked))
    returning id),
  moved as (
    update deployment d set status = 'in_progress', order_number = nextval('order_number'), event_seq = event_seq + 3, count_total = 1, count_active = 1,
      count_dispatched = 1, fan_out_at = now(), fan_out_done_at = now(), fan_out_cursor = robot_id, expires_at = now() + interval '30 days',
      started_at = now(), updated_at = now()
    from due where d.org_id = $1 and d.id = due.id and d.status = 'scheduled'
    returning d.org_id, d.id, d.robot_id, d.release_id, d.app, d.order_number, d.created_by, 'tgt_' || lpad(d.order_number::text, 26, '0') as target_id),
  target as (
    insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, attempt, deadline_at, dispatch_generation, created_at, updated_at)
    select org_id, id, target_id, 'release', robot_id, app, release_id, 'dispatched', 1, now() + interval '10 minutes', 1, now(), now() from moved),
  desired as (
    insert into robot_desired (org_id, robot_id, generation, updated_at) select org_id, robot_id, 1, now() from moved
    on conflict (org_id, robot_id) do update set generation = robot_desired.generation + 1, updated_at = excluded.updated_at),
  app as (
    insert into robot_app (org_id, robot_id, app, desired_release_id, target_id, deployment_id, attempt, last_target_id, last_order_number, updated_at)
    select org_id, robot_id, app, release_id, target_id, id, 1, target_id, order_number, now() from moved),
  event as (
    insert into deployment_event (org_id, deployment_id, seq, id, at, kind, status, target_status, robot_id, message, actor, data)
    select org_id, moved.id, seq, 'evt_' || lpad(order_number::text, 25, '0') || seq, now(), kind, status, target_status,
      case when target_status is not null then robot_id end, message, created_by,
      case when target_status is null then '{}' else jsonb_build_object('target_id', target_id, 'attempt', 1) end
    from moved cross join (values
      (1, 'deployment.queued', 'queued', null, 'The deployment is queued'),
      (2, 'target.dispatched', 'in_progress', 'dispatched', 'release of main dispatched to the robot'),
      (3, 'deployment.in_progress', 'in_progress', null, 'The deployment is in progress')) as e (seq, kind, status, target_status, message)),
  timeline as (
    insert into timeline_entry (org_id, robot_id, id, at, kind, actor, summary, data)
    select org_id, robot_id, 'evt_' || lpad(order_number::text, 26, '0'), now(), 'deployment.dispatched', created_by, 'Release of main dispatched to the robot',
      jsonb_build_object('deployment_id', id, 'release_id', release_id, 'reason', null) from moved)
  select count(*)::int as started from moved`;

async function bare(rig: Rig, client: pg.Client, release: string, round: string, count: number): Promise<number> {
  await schedule(rig, client, release, round, count, new Date(Date.now() + 86_400_000));
  const started = performance.now();
  for (let left = count; left > 0;) {
    const { rows } = await client.query<{ started: number }>({ name: "start", text: START, values: [rig.org_id] });
    const [batch] = rows;
    if (batch === undefined || batch.started === 0) throw new Error("the limit found fewer due deployments than were scheduled");
    left -= batch.started;
  }
  return performance.now() - started;
}

async function forget(rig: Rig, client: pg.Client): Promise<void> {
  await atRest(rig.server.pid);
  await client.query("delete from deployment where org_id = $1", [rig.org_id]);
  await client.query("delete from deployment_event where org_id = $1", [rig.org_id]);
  await client.query("delete from robot_app where org_id = $1", [rig.org_id]);
  await client.query("vacuum analyze deployment, deployment_target, deployment_event, deployment_due, robot_app, robot_desired");
}

export const dueDeployments: Row = {
  name: "due-deployments",
  area: "deployments",
  about: `${DEPLOYMENTS} deployments that are due at the same time, each to an online robot, until all are dispatched; compared with one statement for each ${BATCH} that writes the same rows`,
  run: async (rig) => {
    const count = rig.quick ? QUICK_DEPLOYMENTS : DEPLOYMENTS;
    await insertFleet(rig, count, "online");
    const release = await insertRelease(rig);
    const client = new pg.Client(rig.database);
    await client.connect();
    const [a, b]: [number[], number[]] = [[], []];
    try {
      for (let i = 0; i <= (rig.quick ? 2 : ROUNDS); i += 1) {
        await atRest(rig.server.pid);
        const us = await ours(rig, client, release, `ours_${i}`, count);
        await forget(rig, client);
        const them = await bare(rig, client, release, `bare_${i}`, count);
        await forget(rig, client);
        if (i === 0) continue; // warms up
        a.push((us * 1_000) / count);
        b.push((them * 1_000) / count);
      }
    } finally {
      await client.end();
    }
    const [us, them] = [sample(a), sample(b)];
    const ratio = ratioOf(us, them);
    return { ours: us, limit: them, unit: "µs a deployment", ratio, goal: `≤ ${RATIO_MAX}`, met: ratio <= RATIO_MAX };
  },
};
