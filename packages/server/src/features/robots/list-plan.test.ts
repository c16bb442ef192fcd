import assert from "node:assert/strict";
import { test } from "node:test";
import type pg from "pg";
import type { Caller } from "../../kernel/caller.ts";
import type { Statement } from "../../kernel/sql.ts";
import { withClient } from "../../engines/db/with-client.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { robotRoutes } from "./index.ts";
import { listingRobots } from "./store-list.ts";
import { ALL_PARTS } from "./store-shown.ts";

const TIMEOUT = { timeout: 120_000 };
const SMALL_ORGS = 150;
const ROBOTS_OF_SMALL = 50;
const ROBOTS = 3_000;
/** Maximum rows that a plan may process for each row that it returns: of the robot, its apps, releases, configs and health. */
const ROWS_EACH_MAX = 40;
/** Maximum rows that a filter or an order may process for each robot of the org, if no index has that order. */
const ROWS_OF_FILTER_MAX = 15;
/** After five calls with plans for their values, PostgreSQL may keep a plan for any values. */
const CALLS = 6;

const FILL = [
  `insert into robot (org_id, id, name, site_id, fleet_id, labels, public_key, node_id, connected_at, last_seen_at, created_at, updated_at)
   select $1, 'rob_' || lpad(n::text, 8, '0'), 'robot-' || n, 'site', 'fleet', '{"zone": "a"}', decode(md5(n::text) || md5(n::text), 'hex'),
     case when n % 10 < 6 then 'node' end, now(), now(), now(), now() from generate_series(1, $2::int) n`,
  `insert into release (org_id, id, tag, kind, artifact_sha256, artifact_size, artifact_state, created_at, updated_at)
   select $1, 'rel_' || n, $1 || n, 'file', 'x', 1, 'stored', now(), now() from generate_series(0, 9) n where $2::int > 0`,
  `insert into robot_app (org_id, robot_id, app, current_release_id, desired_release_id, status, updated_at)
   select $1, 'rob_' || lpad(n::text, 8, '0'), 'main', 'rel_1', 'rel_2', 'running', now() from generate_series(1, $2::int) n`,
  `insert into robot_config (org_id, robot_id, namespace, version, content, sha256, reported_version, reported_sha256, updated_at)
   select $1, 'rob_' || lpad(n::text, 8, '0'), 'main', 1, '{}', 'a', 1, 'b', now() from generate_series(1, $2::int) n`,
  `insert into health_snapshot (org_id, robot_id, received_at, snapshot, state, failing)
   select $1, 'rob_' || lpad(n::text, 8, '0'), now(), '{}', 'ok', '[]' from generate_series(1, $2::int) n where n % 10 <> 0`,
];

interface Plan {
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: Plan[];
}

/** Returns how many rows all parts of a plan processed. */
function rowsIn(plan: Plan): number {
  const {
    "Actual Rows": rows,
    "Actual Loops": loops,
    "Rows Removed by Filter": filtered = 0,
    "Rows Removed by Join Filter": unjoined = 0,
  } = plan;
  return (rows + filtered + unjoined) * loops + (plan.Plans ?? []).reduce((sum, part) => sum + rowsIn(part), 0);
}

/**
 * Runs a statement with the plan that PostgreSQL chooses for repeated calls, or for one call if the statement is not prepared. Returns the
 * number of its rows and of those it processed.
 */
async function measure(
  client: pg.Client,
  as: string,
  { name, text, values }: Statement<unknown>,
): Promise<{ returned: number; processed: number }> {
  let statement: pg.QueryConfig = { text, values: [...values] };
  if (name !== undefined) {
    await client.query(`prepare ${as} as ${text}`);
    statement = { text: `execute ${as}(${values.map((value) => client.escapeLiteral(String(value))).join(", ")})` };
    for (let call = 0; call < CALLS; call += 1) await client.query(statement);
  }
  const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: Plan }] }>({
    ...statement,
    text: `explain (analyze, timing off, format json) ${statement.text}`,
  });
  const plan = rows[0]?.["QUERY PLAN"][0].Plan;
  assert.ok(plan !== undefined);
  return { returned: plan["Actual Rows"], processed: rowsIn(plan) };
}

test("in a large org among many small ones, a list reads a bounded number of rows for each robot", TIMEOUT, async () => {
  await using it = await startFeaturePlane([robotRoutes]);
  const { org_id } = await it.org();
  await withClient(it.database.connection, async (client) => {
    const small = Array.from({ length: SMALL_ORGS }, (_, i) => `org_small_${i}`);
    await client.query(
      `insert into org (id, name, status, created_at, updated_at) select id, id, 'active', now(), now() from unnest($1::text[]) as o (id)`,
      [small],
    );
    for (const statement of FILL) {
      await client.query(statement, [org_id, ROBOTS]);
      for (const org of small) await client.query(statement, [org, ROBOTS_OF_SMALL]);
    }
    await client.query("analyze");
    await client.query("set role pg_database_owner");
    await client.query("select set_config('app.org', $1, false)", [org_id]);
    const caller: Pick<Caller, "org_id" | "grants" | "limit"> = { org_id, grants: [{ role: "admin", scopes: [] }], limit: [] };
    const lists = [
      [{}, "newest"],
      [{}, "name"],
      [{ status: "offline" }, "newest"],
      [{ status: "offline" }, "name"],
      [{ labels: [{ key: "zone", value: "a" }] }, "newest"],
      [{ config_state: "drifted" }, "newest"],
      [{ app: "main" }, "newest"],
      [{ health: "ok" }, "newest"],
      [{ config_state: "drifted" }, "name"],
      [{ release_state: "behind" }, "name"],
      [{ health: "ok" }, "name"],
      [{ labels: [{ key: "zone", value: "a" }] }, "name"],
      [{ health: "unknown" }, "newest"],
      [{ health: "unknown" }, "name"],
      [{ release_state: "unknown", health: "unknown", config_state: "unknown" }, "newest"],
    ] as const;
    for (const [i, [filter, sort]] of lists.entries())
      for (const limit of [101, 1_001, 10_001]) {
        const listed = listingRobots(caller, { labels: [], ...filter }, { sort, after: null, limit }, ALL_PARTS);
        const { returned, processed } = await measure(client, `list_${i}_${limit}`, listed);
        const what = `${JSON.stringify(filter)} by ${sort}, at most ${limit}: ${processed} rows for ${returned}`;
        assert.ok(processed <= ROWS_EACH_MAX * returned + ROWS_OF_FILTER_MAX * ROBOTS, what);
      }
  });
});
