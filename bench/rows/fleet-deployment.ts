import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { LAG_SAMPLE_MS } from "../../packages/server/src/kernel/metrics.ts";
import { atRest, ratioOf, sample } from "../measure.ts";
import type { Rig } from "../rig.ts";
import { insertFleet, insertRelease } from "../robots.ts";
import type { Row } from "../row.ts";

const ROBOTS = 100_000;
const QUICK_ROBOTS = 12_000;
const ROUNDS = 4;
const POLL_MS = 2;
const LOOK_MS = 200;
const LIMIT_ID = "dep_limit";
const CREATED_TIMEOUT_MS = 120_000;
const RATIO_MAX = 1.5;
const BLOCKED_MS_MAX = 50;

/** Inserts the rows of a deployment to the whole fleet with one statement. */
const LIMIT = `
  insert into bench_target (org_id, deployment_id, id, kind, robot_id, subject, release_id, status, created_at, updated_at)
  select org_id, $2, 'tgt_' || $4 || lpad((row_number() over (order by id))::text, 18, '0'), 'release', id, 'main', $5, 'queued', now(), now()
  from robot where org_id = $1 and fleet_id = $3 and decommissioned_at is null`;

/**
 * Returns the longest blocking time of the server's event loop since the last call. The metric includes one interval between samples, even if
 * the event loop is idle.
 */
async function blockedMs({ server: { url } }: Rig): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const seconds = Number(/^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text)?.[1]);
  return Math.max(0, seconds * 1_000 - LAG_SAMPLE_MS);
}

async function create(rig: Rig, client: pg.Client, fleet_id: string, release: string): Promise<{ ms: number; id: string; rows: number }> {
  const started = performance.now();
  const { data } = await rig.api.createDeployment({ body: { release, fleet_id }, idempotency_key: randomUUID() });
  const done = { name: "done", text: "select 1 from deployment where org_id = $1 and id = $2 and fan_out_done_at is not null" };
  while ((await client.query({ ...done, values: [rig.org_id, data.id] })).rowCount === 0) {
    if (performance.now() - started > CREATED_TIMEOUT_MS) throw new Error("the deployment was not created in time");
    await sleep(POLL_MS);
  }
  return { ms: performance.now() - started, id: data.id, rows: data.counts.total };
}

/** Waits until the server has checked each offline robot, then restores the tables for the next round. */
async function forget(rig: Rig, client: pg.Client, id: string): Promise<void> {
  const to_look_at =
    "select 1 from deployment_target where org_id = $1 and deployment_id = $2 and status = 'queued' and waiting_for is null limit 1";
  while ((await client.query(to_look_at, [rig.org_id, id])).rowCount !== 0) await sleep(LOOK_MS);
  await atRest(rig.server.pid);
  await client.query("delete from deployment where org_id = $1 and id = $2", [rig.org_id, id]);
  await client.query("delete from deployment_event where org_id = $1 and deployment_id = $2", [rig.org_id, id]);
  await client.query("vacuum analyze deployment_target");
  await client.query("checkpoint");
}

/** Creates a copy of the target table, with its indexes and foreign key. The server does not process the copy. */
async function makeTable(rig: Rig, client: pg.Client): Promise<void> {
  await client.query(`
    create table bench_target (like deployment_target including all,
      foreign key (org_id, deployment_id) references deployment (org_id, id) on delete cascade)`);
  await client.query(
    `insert into deployment (org_id, id, kind, target_kind, app, status, fan_out_at, fan_out_done_at, created_by, created_at, updated_at)
     values ($1, $2, 'release', 'fleet', 'main', 'cancelled', now(), now(), '{}', now(), now())`,
    [rig.org_id, LIMIT_ID],
  );
}

async function insertAtOnce(rig: Rig, client: pg.Client, fleet_id: string, release: string, round: number): Promise<number> {
  const started = performance.now();
  await client.query(LIMIT, [rig.org_id, LIMIT_ID, fleet_id, String(round).padStart(8, "0"), release]);
  const ms = performance.now() - started;
  await client.query("truncate bench_target");
  await client.query("checkpoint");
  return ms;
}

export const fleetDeployment: Row = {
  name: "fleet-deployment",
  area: "deployments",
  about: `a deployment to a fleet of ${ROBOTS} robots, from the request until all its targets exist; compared with one INSERT … SELECT of the same rows`,
  run: async (rig) => {
    const robots = rig.quick ? QUICK_ROBOTS : ROBOTS;
    const [fleet_id, release] = [await insertFleet(rig, robots), await insertRelease(rig)];
    const client = new pg.Client(rig.database);
    await client.connect();
    await makeTable(rig, client);
    const [ours, limit, blocked]: [number[], number[], number[]] = [[], [], []];
    try {
      for (let i = 0; i <= (rig.quick ? 2 : ROUNDS); i += 1) {
        await atRest(rig.server.pid);
        await blockedMs(rig);
        const { ms, id, rows } = await create(rig, client, fleet_id, release);
        const longest = await blockedMs(rig);
        if (rows !== robots) throw new Error(`${rows} of ${robots} robots are in the deployment`);
        await forget(rig, client, id);
        const at_once = await insertAtOnce(rig, client, fleet_id, release, i);
        if (i === 0) continue; // warms up
        ours.push(ms);
        limit.push(at_once);
        blocked.push(longest);
      }
    } finally {
      await client.end();
    }
    const [us, them, longest] = [sample(ours), sample(limit), sample(blocked)];
    const ratio = ratioOf(us, them);
    return [
      { part: `to ${robots} robots`, ours: us, limit: them, unit: "ms", ratio, goal: `≤ ${RATIO_MAX}`, met: ratio <= RATIO_MAX },
      {
        part: "longest time for which the event loop did nothing else",
        ours: longest,
        unit: "ms",
        figure: `at most ${longest.max.toFixed(1)} ms`,
        goal: `≤ ${BLOCKED_MS_MAX} ms`,
        met: longest.max <= BLOCKED_MS_MAX,
      },
    ];
  },
};
