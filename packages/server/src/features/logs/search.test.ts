import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { FoundLogRecord, LogHistogram } from "@roamfleet/protocol/routes";
import { sql } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { ingestLogs, logRoutes } from "./index.ts";
import { limitSearches, SEARCHED_BYTES_MAX, SEARCHES_MAX } from "./search.ts";

const TIMEOUT = { timeout: 120_000 };
interface Found {
  items: FoundLogRecord[];
  next_cursor: string | null;
  searched_back_to: string | null;
}

async function startRig() {
  const sessions = new Map<string, Session>();
  const rig = await startFeaturePlane([logRoutes], { sessions });
  const { org_id, token } = await rig.org({ role: "viewer" });
  const seqs = new Map<string, number>();
  /** Stores records of a robot in one batch. Their times are those of the server, unless given. */
  const log = async (robot_id: string, records: Partial<LogRecordBody>[], of = org_id): Promise<void> => {
    const session = { ...fakeSession(`sess_${robot_id}`, of, helloOf(robot_id)), send: () => true };
    sessions.set(robot_id, session);
    const at = rig.clock.now().toISOString();
    const numbered = records.map((record): LogRecordBody => {
      const seq = (seqs.get(robot_id) ?? 0) + 1;
      seqs.set(robot_id, seq);
      return { seq, at, level: "info", source: "nav2", message: `record ${seq}`, fields: {}, ...record };
    });
    await ingestLogs(rig.plane, session, { type: "logs", records: numbered });
  };
  const get = async <T>(path: string, as = token): Promise<T> => {
    const { status, body } = await rig.call<T>("GET", path, { token: as });
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  };
  const messages = async (query: string): Promise<string[]> => (await get<Found>(`/api/logs?${query}`)).items.map(({ message }) => message);
  return { rig, plane: rig.plane, org_id, token, log, get, messages };
}

test("searches the logs of all robots of the org, newest first, with their names", TIMEOUT, async () => {
  const { rig, plane, org_id, log, get, messages } = await startRig();
  await using _ = rig;
  const first = await seedRobot(plane, org_id);
  const second = await seedRobot(plane, org_id, first);
  const third = await seedRobot(plane, org_id);
  await plane.db.run(sql`update robot set name = 'loader', labels = '{"zone":"a"}' where org_id = ${org_id} and id = ${second.robot_id}`);
  await log(first.robot_id, [{ message: "motor stalled", level: "error" }, { message: "ready" }]);
  await rig.clock.advance({ seconds: 5 });
  await log(second.robot_id, [{ message: "Motor warm", level: "warn", source: "drive" }]);
  await rig.clock.advance({ seconds: 5 });
  await log(third.robot_id, [{ message: "motor off" }]);
  const { items, next_cursor, searched_back_to } = await get<Found>("/api/logs?q=MOTOR");
  assert.deepEqual(
    items.map(({ message, robot_name }) => [message, robot_name]),
    [
      ["motor off", third.robot_id],
      ["Motor warm", "loader"],
      ["motor stalled", first.robot_id],
    ],
  );
  assert.deepEqual([next_cursor, searched_back_to], [null, null]);
  assert.deepEqual(await messages(`q=motor&level=warn`), ["Motor warm", "motor stalled"]);
  assert.deepEqual(await messages(`source=drive`), ["Motor warm"]);
  assert.deepEqual(await messages(`site_id=${first.site_id}&q=motor`), ["Motor warm", "motor stalled"]);
  assert.deepEqual(await messages(`fleet_id=${third.fleet_id}`), ["motor off"]);
  assert.deepEqual(await messages(`robot_id=${first.robot_id}`), ["ready", "motor stalled"]);
  assert.deepEqual(await messages(`label=zone:a`), ["Motor warm"]);
  assert.deepEqual(await messages(`label=zone:a&label=zone:b`), []);
});

test("the pages of a search contain each record once", TIMEOUT, async () => {
  const { rig, plane, org_id, log, get } = await startRig();
  await using _ = rig;
  const robots = [await seedRobot(plane, org_id), await seedRobot(plane, org_id), await seedRobot(plane, org_id)];
  for (let i = 0; i < 40; i += 1) {
    for (const { robot_id } of robots) await log(robot_id, [{}, {}, {}]);
    await rig.clock.advance({ seconds: 45 });
  }
  const seen = new Set<string>();
  let [cursor, pages]: [string | null, number] = ["", 0];
  while (cursor !== null) {
    const page: Found = await get(`/api/logs?limit=50${cursor === "" ? "" : `&cursor=${cursor}`}`);
    for (const { robot_id, seq } of page.items) seen.add(`${robot_id}/${seq}`);
    [cursor, pages] = [page.next_cursor, pages + 1];
  }
  assert.equal(seen.size, 360);
  assert.equal(pages, 8);
});

test("finds records of the period that a robot sent days later, and no others", TIMEOUT, async () => {
  const { rig, plane, org_id, log, messages } = await startRig();
  await using _ = rig;
  const { robot_id } = await seedRobot(plane, org_id);
  const at = (hours: number): string => new Date(Date.parse("2030-01-01T00:00:00Z") + hours * 3_600_000).toISOString();
  await log(robot_id, [{ message: "before" }]);
  await rig.clock.advance({ days: 3 });
  await log(robot_id, [{ message: "delayed", at: at(2.5) }]);
  await log(robot_id, [{ message: "after", at: at(4) }]);
  await rig.clock.advance({ hours: 1 });
  assert.deepEqual(await messages(`since=${at(2)}&until=${at(3)}`), ["delayed"]);
  assert.deepEqual(await messages(`since=1970-01-01T00:00:00Z`), ["after", "delayed", "before"]);
  assert.deepEqual(await messages(`q=delayed`), []);
});

test("counts records by time and level", TIMEOUT, async () => {
  const { rig, plane, org_id, log, get } = await startRig();
  await using _ = rig;
  const { robot_id } = await seedRobot(plane, org_id);
  await rig.clock.advance({ hours: 1 });
  await log(robot_id, [{ level: "error" }, { level: "error" }, { level: "warn" }]);
  await rig.clock.advance({ minutes: 10 });
  await log(robot_id, [{}, { at: "2035-01-01T00:00:00.000Z" }]);
  await rig.clock.advance({ minutes: 1 });
  const { data } = await get<{ data: LogHistogram }>("/api/logs/histogram");
  const { buckets, ...period } = data;
  assert.deepEqual(period, {
    since: "2030-01-01T00:11:00.000Z",
    until: "2030-01-01T01:11:00.000Z",
    bucket_seconds: 60,
    searched_back_to: null,
    next_cursor: null,
  });
  const none = { trace: 0, debug: 0, info: 0, warn: 0, error: 0, fatal: 0 };
  assert.deepEqual(buckets, [
    { at: "2030-01-01T01:00:00.000Z", counts: { ...none, error: 2, warn: 1 } },
    { at: "2030-01-01T01:10:00.000Z", counts: { ...none, info: 2 } },
  ]);
});

test("a search ends at its limit with the time to which it searched, and its cursor continues there", TIMEOUT, async () => {
  const { rig, plane, org_id, log, get } = await startRig();
  await using _ = rig;
  const { robot_id } = await seedRobot(plane, org_id);
  const filler = Array.from({ length: 60 }, () => ({ message: "x".repeat(4_000) }));
  await log(robot_id, [{ message: "the needle" }]);
  const batches = Math.ceil((SEARCHED_BYTES_MAX * 1.2) / (60 * 4_000));
  for (let i = 0; i < batches; i += 1) {
    await rig.clock.advance({ seconds: 10 });
    await log(robot_id, filler);
  }
  const first = await get<Found>("/api/logs?q=needle");
  assert.deepEqual(first.items, []);
  assert.ok(first.next_cursor !== null && first.searched_back_to !== null);
  assert.ok(first.searched_back_to > "2030-01-01T00:00:00.000Z");
  const rest = await get<Found>(`/api/logs?q=needle&cursor=${first.next_cursor}`);
  assert.deepEqual(
    rest.items.map(({ message }) => message),
    ["the needle"],
  );
  assert.equal(rest.searched_back_to, null);
  let [counted, cursor]: [number, string | null] = [0, ""];
  while (cursor !== null) {
    const { data }: { data: LogHistogram } = await get(`/api/logs/histogram${cursor === "" ? "" : `?cursor=${cursor}`}`);
    for (const { counts } of data.buckets) counted += counts.info;
    cursor = data.next_cursor;
  }
  assert.equal(counted, 1 + batches * 60);
});

test("returns 429 beyond the concurrent searches of an org", TIMEOUT, async () => {
  const { rig, plane, org_id, token, get } = await startRig();
  await using _ = rig;
  const { promise, resolve } = Promise.withResolvers<void>();
  const running = Array.from({ length: SEARCHES_MAX }, () => limitSearches(plane, org_id, () => promise));
  assert.equal((await rig.call("GET", "/api/logs", { token })).status, 429);
  assert.equal((await rig.call("GET", "/api/logs/histogram", { token })).status, 429);
  const other = await rig.org();
  await get("/api/logs", other.token);
  resolve();
  await Promise.all(running);
  await get("/api/logs");
});

test("never returns another org's records, and returns 404 for its robots", TIMEOUT, async () => {
  const { rig, plane, org_id, log, get } = await startRig();
  await using _ = rig;
  const own = await seedRobot(plane, org_id);
  await log(own.robot_id, [{}]);
  const other = await rig.org();
  assert.deepEqual((await get<Found>("/api/logs", other.token)).items, []);
  assert.deepEqual((await get<{ data: LogHistogram }>("/api/logs/histogram", other.token)).data.buckets, []);
  for (const [field, id] of Object.entries(own))
    assert.equal((await rig.call("GET", `/api/logs?${field}=${id}`, { token: other.token })).status, 404, field);
});
