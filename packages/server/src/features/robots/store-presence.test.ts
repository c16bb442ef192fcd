import assert from "node:assert/strict";
import { test } from "node:test";
import type { Db } from "../../kernel/db.ts";
import { int, list, row, sql, text } from "../../kernel/sql.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { setOffline, setOfflineOfDeadNodes, setOnline, updateSeen } from "./store-presence.ts";

const TIMEOUT = { timeout: 120_000 };
const ROBOTS = 3_000;
const MOVED = 300;
/**
 * Maximum reads per changed row. A row is read once for its lock, once for the update, and some times as a neighbor of other rows on its
 * page.
 */
const READ_FOR_EACH_MAX = 10;

const idRow = row({ id: text });
const countRow = row({ n: int });

/** Inserts robots. The statistics of the table show no robot online. */
async function seedOffline({ plane }: FeaturePlane, org_id: string): Promise<string[]> {
  const first = await seedRobot(plane, org_id);
  await plane.db.run(sql`
    insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
    select r.org_id, r.id || n, r.name || n, r.site_id, r.fleet_id, convert_to(r.id || n, 'UTF8'), r.created_at, r.updated_at
    from robot r, generate_series(2, ${ROBOTS}) n where r.id = ${first.robot_id}`);
  await plane.db.run(sql`analyze robot`);
  return (await plane.db.many(sql(idRow)`select id from robot where org_id = ${org_id}`)).map(({ id }) => id);
}

/** Returns how many rows of the table robot this transaction has read so far. */
const rowsRead = async (tx: Db): Promise<number> =>
  (
    await tx.one(sql(countRow)`
      select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as n from pg_stat_xact_user_tables where relname = 'robot'`)
  ).n;

test("a connect, heartbeat or disconnect reads few rows, however many robots are online", TIMEOUT, async () => {
  const it = await startFeaturePlane([]);
  await using _ = it;
  const { org_id } = await it.org();
  const { node, db, clock } = it.plane;
  const ids = await seedOffline(it, org_id);
  const refs = ids.map((id) => ({ org_id, id }));
  const comings = ids.map((id) => ({ session_id: `sess_${id}`, hello: helloOf(id), public_key: undefined }));
  const own = db.forOrg(org_id);
  const readBy = (work: (tx: Db) => Promise<number>, expected: number, as: Db = own): Promise<void> =>
    as.transaction(async (tx) => {
      const before = await rowsRead(tx);
      assert.equal(await work(tx), expected);
      const read = (await rowsRead(tx)) - before;
      assert.ok(read >= expected && read <= expected * READ_FOR_EACH_MAX, `${read} rows were read for ${expected}`);
    });

  await readBy(async (tx) => (await setOnline(tx, org_id, node, comings, clock.now())).size, ROBOTS);
  const moved = refs.slice(0, MOVED);
  await readBy(
    (tx) =>
      updateSeen(
        tx,
        moved.map((ref) => ({ ...ref, at: new Date(clock.now().getTime() + 1_000) })),
      ),
    MOVED,
  );
  await readBy(async (tx) => (await setOffline(tx, node, moved)).length, MOVED);
  assert.equal((await db.one(sql(countRow)`select count(*)::int as n from robot where node_id is not null`)).n, ROBOTS - MOVED);

  // Robots of another live node must not be found, but robots of an ended run of that node must.
  await db.run(sql`insert into node (id, epoch, beat, is_over, started_at) values ('node_other', 2, 1, false, now())`);
  await db.run(sql`update robot set node_id = 'node_other', node_epoch = 2 where node_id is not null`);
  await db.run(sql`analyze robot`);
  const sweep = (tx: Db): Promise<number> => setOfflineOfDeadNodes(tx, node, MOVED, 0).then(({ length }) => length);
  await db.transaction(async (tx) => {
    const before = await rowsRead(tx);
    assert.equal(await sweep(tx), 0);
    assert.ok((await rowsRead(tx)) - before < READ_FOR_EACH_MAX);
  });
  await db.run(sql`update robot set node_epoch = 1 where id = any(${list(ids.slice(-MOVED))}::text[])`);
  assert.equal(await db.transaction(sweep), MOVED);
});
