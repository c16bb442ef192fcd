import assert from "node:assert/strict";
import { globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { idFloor } from "@roamfleet/clock";
import { ID_PREFIXES } from "@roamfleet/protocol";
import { oneNodeOnly } from "../harness/nodes.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { rowsOf } from "../processes/database-rows.ts";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { insertEveryRow, type Row } from "../processes/every-row.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { directoryBlobs } from "../../packages/server/src/engines/blobs/index.ts";
import { startBlobSweep, startUploadExpiry } from "../../packages/server/src/features/releases/index.ts";
import { sweepTickets } from "../../packages/server/src/features/streams/tickets.ts";
import { startFeaturePlane } from "../../packages/server/src/features/testing/feature-plane.ts";
import { RetentionClock } from "../../packages/server/src/kernel/retention-clock.ts";
import { startRetentionLoops } from "../../packages/server/src/start-loops.ts";

const [LIBFAKETIME] = globSync("/usr/lib/*/faketime/libfaketime.so.1");
const DAY_MS = 86_400_000;
const TEN_YEARS = 3_650;
/** Clock errors in days, one per start. In the full size a start without an error is in between. */
const STARTS =
  promiseSize({ test: 0, full: 1 }) === 1 ? [TEN_YEARS, -TEN_YEARS, 0, 15, -15, 400, 0, TEN_YEARS, 0] : [TEN_YEARS, -TEN_YEARS];
/** Tables whose rows are deleted by age alone. Other tables contain state and work, which an hour of a running server may change. */
const DELETED_BY_AGE = [
  "alert_delivery",
  "alert_mute",
  "artifact",
  "artifact_upload",
  "audit_entry",
  "deployment",
  "deployment_event",
  "deployment_target",
  "health_history",
  "idempotency",
  "incident",
  "incident_entry",
  "incident_member",
  "log_batch",
  "log_robot_usage",
  "log_usage",
  "metric_chunk",
  "metric_rollup",
  "org",
  "shell_recording",
  "stream_ticket",
  "timeline_entry",
  "web_session",
];
const LIMIT = { timeout: promiseSize({ test: 240_000, full: 900_000 }) };

/** Rows that can be deleted only because of their age: all work is finished, and ids contain the time like real ids. */
const finished = (at: Date): Record<string, Row> => ({
  org: { status: "active" },
  retention_clock: { seen_at: at, jumps: "[]" },
  deployment: { status: "applied", finished_at: at },
  alert_delivery: { status: "failed", incident_id: null },
  // Events have no foreign key from which the row of their deployment follows.
  incident: { status: "resolved", resolved_at: at },
  incident_entry: { incident_id: "incident.id" },
  incident_member: { incident_id: "incident.id" },
  deployment_event: { deployment_id: "deployment.id" },
  deployment_target: { status: "applied", deadline_at: null },
  shell_session: { status: "ended", recording_dropped_at: null, recording_bytes: 100 },
  audit_entry: { id: idFloor(ID_PREFIXES.audit, at) },
  timeline_entry: { id: idFloor(ID_PREFIXES.event, at) },
});

type Rows = Record<string, string[]>;

/** Number of rows by table. Rows of a partition count for its table. */
function countsOf(rows: Rows): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [name, found] of Object.entries(rows)) {
    const table = name.replace(/^public\./, "").replace(/_(\d{8}|default)$/, "");
    counts[table] = (counts[table] ?? 0) + found.length;
  }
  return counts;
}

/** Names of tables with fewer rows than before. Rows added by a start are ignored. */
const lost = (before: Rows, after: Rows): string[] => {
  const now = countsOf(after);
  return Object.entries(countsOf(before)).flatMap(([table, count]) =>
    DELETED_BY_AGE.includes(table) && (now[table] ?? 0) < count ? [`${table}: ${count} → ${now[table] ?? 0}`] : [],
  );
};

test("retention deletes no recent row when the server starts with a clock ten years off", LIMIT, async (t) => {
  await using it = await startFeaturePlane([]);
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-retention-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const { clock, plane, database } = it;
  plane.blobs = await directoryBlobs(directory, { log: plane.log });
  const at = new Date(clock.now().getTime() - 3_600_000);
  await insertEveryRow(database.connection, { at, given: finished(at) });
  await plane.db.run(
    sql`insert into org (id, name, status, created_at, updated_at) values ('org_pending', 'pending', 'pending', ${at}, ${at})`,
  );
  const before = await rowsOf(database.connection);
  /** Lets the server run for some hours and returns what it deleted. */
  const run = async (hours: number): Promise<string[]> => {
    plane.retention_clock = await RetentionClock.open({ ...plane, has_remote_database: false });
    const loops = [plane.retention_clock.start(), startBlobSweep(plane), startUploadExpiry(plane), ...(await startRetentionLoops(plane))];
    await clock.advance({ hours, minutes: 1 });
    await sweepTickets(plane);
    for (const loop of loops) await loop.stop();
    return lost(before, await rowsOf(database.connection));
  };
  assert.deepEqual(await run(1), []);
  let off_days = 0;
  for (const days of [TEN_YEARS, -TEN_YEARS, 0, 15, 0]) {
    clock.jump((days - off_days) * DAY_MS);
    off_days = days;
    assert.deepEqual(await run(1), [], `${days} days off`);
  }
  // Check that this test can fail: the server trusts a time that has been stable for a day, so it then deletes rows.
  clock.jump(TEN_YEARS * DAY_MS);
  const gone = (await run(26)).map((line) => line.split(":")[0]);
  for (const table of DELETED_BY_AGE) assert.ok(gone.includes(table), `${table} is deleted by age: ${gone.join(", ")}`);
  provePromise(t, 31, `${DELETED_BY_AGE.length} tables, 5 starts up to ten years off with an hour of every loop each: 0 rows lost`);
});

test(
  "a real server with a clock ten years off deletes no row and reports the wrong clock",
  { ...LIMIT, skip: LIBFAKETIME === undefined ? "faketime is not installed" : oneNodeOnly("the clock of one machine") },
  async (t) => {
    await using server = await ServerProcess.start({ nodes: 1 });
    const at = new Date(Date.now() - 3_600_000);
    await insertEveryRow(await server.database(), { at, given: finished(at) });
    const before = await rowsOf(await server.database());
    for (const days of STARTS) {
      assert.equal(await server.program.stop(), 0);
      server.env =
        days === 0 ? {} : { LD_PRELOAD: LIBFAKETIME!, FAKETIME: `${days > 0 ? "+" : ""}${days}d`, FAKETIME_DONT_FAKE_MONOTONIC: "1" };
      // The log and health loops complete their first run before the server listens.
      await server.restart();
      assert.deepEqual(lost(before, await rowsOf(await server.database())), [], `${days} days off`);
      const metrics = await (await fetch(`${server.own_url}/metrics`)).text();
      const behind_seconds = Number(/^roamfleet_retention_clock_behind_seconds (\S+)$/m.exec(metrics)?.[1]);
      if (days > 0) {
        assert.ok(behind_seconds > (days - 1) * 86_400, String(behind_seconds));
        assert.match(server.program.output, /"level":"error"[^\n]*the clock is ahead of the last known time/);
      }
    }
    provePromise(
      t,
      31,
      `a real server started ${STARTS.length} times with its clock ${STARTS.filter((days) => days !== 0).join(", ")} days off: 0 rows lost`,
    );
  },
);
