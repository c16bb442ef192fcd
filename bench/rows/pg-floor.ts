import { systemClock } from "@roamfleet/clock";
import pg from "pg";
import { connect } from "../../packages/server/src/engines/db/index.ts";
import { bumpGenerations, setDesiredConfigs } from "../../packages/server/src/features/deployments/store/robot-state.ts";
import { insertTargets } from "../../packages/server/src/features/deployments/store/targets.ts";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { bareQueries, type FloorContext, type FloorStatement, floorStatements, sendBare } from "../limits/pg-floor.ts";
import { pgbench } from "../limits/pgbench.ts";
import { byTurns, type Round } from "../measure.ts";
import type { Rig } from "../rig.ts";
import { insertRobots } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";

const ROBOTS = 1_000;
const REPETITIONS = 200;
const ROUNDS = 7;
const DAY_MS = 86_400_000;

/** Creates robots with a desired state, and work that the server under test does not process because it is due tomorrow. */
async function prepare(rig: Rig, db: Db): Promise<FloorContext> {
  const { org_id } = rig;
  const robot_ids = (await insertRobots(rig, ROBOTS)).map(({ id }) => id);
  const now = new Date();
  const tomorrow = new Date(now.getTime() + DAY_MS);
  const files = robot_ids.map((robot_id) => ({
    robot_id,
    namespace: "navigation",
    content: '{"speed":1}\n',
    sha256: "a".repeat(64),
    target_id: "tgt_bench",
    deployment_id: "dep_bench_1",
    attempt: 1,
  }));
  await db.transaction(async (tx) => {
    await bumpGenerations(tx, org_id, robot_ids, now);
    await setDesiredConfigs(tx, org_id, files, now);
    await tx.run(sql`
      insert into deployment (org_id, id, kind, target_kind, namespace, status, fan_out_at, fan_out_done_at, created_by, created_at, updated_at)
      select ${org_id}, 'dep_bench_' || n, 'config', 'fleet', 'navigation', 'scheduled', ${now}, ${now}, '{}', ${now}, ${now}
      from generate_series(1, 100) n`);
    await tx.run(
      sql`insert into deployment_due (org_id, id, due_at) select org_id, id, ${tomorrow} from deployment where org_id = ${org_id}`,
    );
    const members = sql`select id as robot_id, null::text as release_id from robot where org_id = ${org_id} order by id limit 500`;
    await insertTargets(
      tx,
      {
        org_id,
        deployment_id: "dep_bench_1",
        kind: "config",
        subject: "navigation",
        status: "queued",
        wave: 0,
        waiting_for: null,
        id: "tgt_bench_0000",
        members,
      },
      now,
    );
    await tx.run(sql`update deployment_target set not_before_at = ${tomorrow} where org_id = ${org_id}`);
  });
  await db.run(sql`analyze`);
  return { org_id, robot_ids, due_at: new Date(tomorrow.getTime() + DAY_MS) };
}

/** This process is the client of both variants, so its CPU time measures the drivers. */
async function timed(work: () => Promise<void>): Promise<Round> {
  const [{ user, system }, started] = [process.cpuUsage(), performance.now()];
  await work();
  const [used, wall_ms] = [process.cpuUsage({ user, system }), performance.now() - started];
  return { wall_us: (wall_ms * 1_000) / REPETITIONS, cpu_us: (used.user + used.system) / REPETITIONS };
}

async function compare(rig: Rig, statement: FloorStatement, ours: Db, client: pg.Client): Promise<RowResult> {
  let n = 0;
  const result = await byTurns(
    rig.quick ? 2 : ROUNDS,
    async () => {
      const from = n;
      n += REPETITIONS;
      return await timed(async () => {
        for (let i = 0; i < REPETITIONS; i += 1) await statement.work(ours, from + i);
      });
    },
    async () => {
      const queries = await bareQueries(statement, n, REPETITIONS);
      n += REPETITIONS;
      return await timed(() => sendBare(client, queries));
    },
  );
  const without_node =
    statement.repeatable === true
      ? await pgbench(rig.database, (await bareQueries(statement, n, 1)).flat(), REPETITIONS * ROUNDS)
      : undefined;
  return {
    part: statement.name,
    ours: result.ours.wall,
    limit: result.limit.wall,
    unit: "µs",
    ratio: result.ratio.median,
    ...(without_node === undefined ? {} : { figure: `pgbench ${without_node.toFixed(0)} µs` }),
    ours_cpu_us: result.ours.cpu,
    limit_cpu_us: result.limit.cpu,
  };
}

export const pgFloor: Row = {
  name: "pg-floor",
  area: "api",
  about: "database cost of the product's main statements, one at a time: our stores; compared with the bare pg driver, prepared",
  run: async (rig) => {
    const db = await connect({ connection: rig.database, clock: systemClock, log: createLog({ level: "error" }) });
    const client = new pg.Client(rig.database);
    await client.connect();
    try {
      const context = await prepare(rig, db);
      const results: RowResult[] = [];
      for (const statement of floorStatements(context)) {
        const ours = statement.system === true ? db : db.forOrg(rig.org_id);
        results.push(await compare(rig, statement, ours, client));
      }
      return results;
    } finally {
      await client.end();
      await db.close();
    }
  },
};
