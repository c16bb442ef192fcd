import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { atRest, ratioOf, sample } from "../measure.ts";
import type { Rig } from "../rig.ts";
import { insertFleet, insertRelease } from "../robots.ts";
import type { Row } from "../row.ts";

const DEPLOYMENTS = 1_000;
const QUICK_DEPLOYMENTS = 100;
const ROUNDS = 5;
const BATCH = 50;
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

/** The limit: a bare worker that changes the states of deployments and targets in batches, without events. */
async function bare(rig: Rig, client: pg.Client, release: string, round: string, count: number): Promise<number> {
  await schedule(rig, client, release, round, count, new Date(Date.now() + 86_400_000));
  await client.query(
    `insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, created_at, updated_at)
     select org_id, id, 'tgt_' || id, 'release', robot_id, 'main', release_id, 'pending', now(), now() from deployment where org_id = $1 and status = 'scheduled'`,
    [rig.org_id],
  );
  const started = performance.now();
  for (let changed = 1; changed > 0;) {
    const { rows } = await client.query<{ id: string }>({
      name: "claim",
      text: `update deployment set status = 'in_progress' where org_id = $1 and id in (
               select id from deployment where org_id = $1 and status = 'scheduled' order by id limit ${BATCH} for update skip locked) returning id`,
      values: [rig.org_id],
    });
    await client.query({
      name: "dispatch",
      text: `update deployment_target set status = 'dispatched' where org_id = $1 and (deployment_id, id) in (
               select deployment_id, id from deployment_target where org_id = $1 and deployment_id = any($2) for update skip locked)`,
      values: [rig.org_id, rows.map(({ id }) => id)],
    });
    changed = rows.length;
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
  about: `${DEPLOYMENTS} deployments that are due at the same time, each to an online robot, until all are dispatched; compared with bare UPDATE … SKIP LOCKED of deployments and targets, ${BATCH} at a time`,
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
