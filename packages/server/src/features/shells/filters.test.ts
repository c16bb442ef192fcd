import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../kernel/sql.ts";
import { explain } from "../testing/explain.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { listAllSessions, type SessionFilter } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };
const ROWS = 20_000;

test("each filter of the list of shells reads only the sessions that it returns, however many others exist", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const { org_id, token } = await it.org();
  const caller = await plane.authenticators.portal(token, org_id);
  const [common, rare] = [await seedRobot(plane, org_id), await seedRobot(plane, org_id)];
  const insert = (prefix: string, robot_id: string, actor: string, status: string, count: number) =>
    plane.db.run(sql`
      insert into shell_session (org_id, id, robot_id, request_id, actor, ip, terminal, status, node_id, node_epoch, started_at)
      select ${org_id}, ${prefix}::text || lpad(n::text, 10, '0'), ${robot_id}, 'r', jsonb_build_object('type', 'user', 'id', ${actor}::text), '192.0.2.1',
        true, ${status}, 'node_a', 1, ${plane.clock.now()}
      from generate_series(1, ${count}::int) n`);
  await insert("shl_0", rare.robot_id, "usr_rare", "aborted", 3);
  await insert("shl_1", common.robot_id, "usr_common", "ended", ROWS);
  await plane.db.run(sql`analyze shell_session`);
  const filters: SessionFilter[] = [{ robot_id: rare.robot_id }, { actor_id: "usr_rare" }, { status: "aborted" }, { status: "open" }];
  for (const filter of filters) {
    const { rows, ms } = await explain(plane.db, (db) => listAllSessions(db, caller, filter, { after: null, limit: 200 }));
    t.diagnostic(`${JSON.stringify(filter)}: ${rows} rows, ${ms} ms`);
    assert.ok(rows <= 200, JSON.stringify(filter));
  }
});
