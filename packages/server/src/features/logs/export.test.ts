import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { LogRecordBody } from "@roamfleet/protocol/link";
import type { AuditEntry, LogRecord } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { auditRoutes } from "../audit/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { ingestLogs, logRoutes } from "./index.ts";
import { LogMatch } from "./read.ts";

const TIMEOUT = { timeout: 120_000 };
const START = Date.parse("2030-01-01T00:00:00Z");
/** The sockets and the client buffer about 10 MB; each read is 5 MB. */
const READS_MAX = 6;
const HELD_UP_LOOKS = 20;

const record = (seq: number, extra: Partial<LogRecordBody> = {}): LogRecordBody => ({
  seq,
  at: new Date(START + seq * 1_000).toISOString(),
  level: seq % 10 === 0 ? "error" : "info",
  source: seq % 2 === 0 ? "nav2" : "arm",
  message: `record ${seq} "quoted" a/b`,
  fields: {},
  ...extra,
});

async function startRig() {
  let url = "";
  const answers: ServerResponse[] = [];
  const rig = await startFeaturePlane([
    logRoutes,
    auditRoutes,
    ({ server }) => {
      server.once("listening", () => (url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`));
      server.on("request", (_request, response) => answers.push(response));
    },
  ]);
  const { org_id, token } = await rig.org({ role: "admin" });
  const first = await seedRobot(rig.plane, org_id);
  const ship = async (robot_id: string, records: LogRecordBody[]): Promise<void> => {
    const session = { ...fakeSession(`sess_${robot_id}`, org_id, helloOf(robot_id, { outbox_id: "o" })), send: () => true };
    await ingestLogs(rig.plane, session, { type: "logs", records });
  };
  const lines = async (path: string): Promise<LogRecord[]> => {
    const response = await fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("content-type"), "application/x-ndjson");
    const text = await response.text();
    assert.ok(text === "" || text.endsWith("\n"));
    return text
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as LogRecord);
  };
  return { rig, org_id, token, url, answers, ...first, ship, lines };
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("exports all filtered records of a robot's log, oldest first, and writes an audit entry", TIMEOUT, async () => {
  const { rig, token, robot_id, ship, lines } = await startRig();
  await using _ = rig;
  for (let from = 1; from <= 2_000; from += 20) {
    await ship(
      robot_id,
      range(from, from + 19).map((seq) => record(seq, seq === 7 ? { message: "two\nlines \u2028 \u0085" } : {})),
    );
    await rig.clock.advance({ seconds: 20 });
  }
  const path = `/api/robots/${robot_id}/logs/export`;
  const all = await lines(path);
  assert.deepEqual(
    all.map(({ seq }) => seq),
    range(1, 2_000),
  );
  assert.equal(all[6]?.message, "two\nlines \u2028 \u0085");
  assert.deepEqual(all[0], { robot_id, received_at: "2030-01-01T00:00:00.000Z", ...record(1) });
  const seqs = async (query: string): Promise<number[]> => (await lines(`${path}?${query}`)).map(({ seq }) => seq);
  const [since, until] = [record(100).at, record(200).at];
  assert.deepEqual(await seqs(`since=${since}&until=${until}`), range(100, 199));
  assert.deepEqual(
    await seqs("level=error"),
    range(1, 200).map((n) => n * 10),
  );
  assert.deepEqual(await seqs(`source=arm&until=${record(10).at}`), [1, 3, 5, 7, 9]);
  assert.deepEqual(await seqs("q=RECORD+1999+%22quoted%22+A%2Fb"), [1_999]);
  assert.deepEqual(await seqs("q=%22quot&level=error&source=arm"), []);
  const { body } = await rig.call<{ items: AuditEntry[] }>("GET", "/api/audit?action=exportRobotLogs", { token });
  assert.equal(body.items.length, 6);
  assert.deepEqual(body.items.at(-1)?.object_id, robot_id);
  assert.deepEqual(body.items.at(-2)?.data, { since, until });
});

test("exports the logs of a fleet robot by robot, without those of other fleets", TIMEOUT, async () => {
  const { rig, org_id, robot_id, fleet_id, site_id, ship, lines } = await startRig();
  await using _ = rig;
  const second = await seedRobot(rig.plane, org_id, { site_id, fleet_id });
  const other = await seedRobot(rig.plane, org_id);
  for (const id of [robot_id, second.robot_id, other.robot_id])
    await ship(
      id,
      range(1, 30).map((seq) => record(seq)),
    );
  const exported = await lines(`/api/fleets/${fleet_id}/logs/export`);
  const ids = [robot_id, second.robot_id].toSorted();
  assert.deepEqual(
    exported.map((one) => [one.robot_id, one.seq]),
    ids.flatMap((id) => range(1, 30).map((seq) => [id, seq])),
  );
});

/** Starts to count the queries that read records. */
function countReads({ plane: { db } }: FeaturePlane): () => number {
  let reads = 0;
  const ofOrg = db.forOrg.bind(db);
  const forOrg = (org_id: string): Db => {
    const own = ofOrg(org_id);
    return {
      ...own,
      many: (statement) => {
        if (/\bfrom log_batch\b/.test(statement.text)) reads += 1;
        return own.many(statement);
      },
    };
  };
  Object.assign(db, { forOrg });
  return () => reads;
}

test("stops reading the database while the client of an export does not read", TIMEOUT, async () => {
  const { rig, token, url, answers, robot_id, ship } = await startRig();
  await using _ = rig;
  const message = "x".repeat(16_000);
  for (let from = 1; from <= 4_000; from += 10)
    await ship(
      robot_id,
      range(from, from + 9).map((seq) => record(seq, { message })),
    );
  const reads = countReads(rig);
  // An unfinished response would keep the server from closing at the end of the test.
  const leaving = new AbortController();
  using client = new DisposableStack();
  client.defer(() => leaving.abort());
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/api/robots/${robot_id}/logs/export`, { headers, signal: leaving.signal });
  const reader = response.body!.getReader();
  let bytes = (await reader.read()).value?.length ?? 0;
  // The count is also stable briefly between two writes, so require several equal samples.
  let [before, still] = [-1, 0];
  await until("the export to pause", () => {
    still = answers.at(-1)?.writableNeedDrain === true && reads() === before ? still + 1 : 0;
    before = reads();
    return still === HELD_UP_LOOKS;
  });
  assert.ok(reads() <= READS_MAX, `${reads()} of the reads while 64 MB waited`);
  for (let part = await reader.read(); !part.done; part = await reader.read()) bytes += part.value.length;
  assert.ok(bytes > 64_000_000, String(bytes));
  assert.ok(reads() > 2 * READS_MAX, `${reads()} reads in all`);
});

test("the text search on stored JSON never skips a batch with a matching record", () => {
  const filter = { since: undefined, until: undefined, level: undefined, source: undefined, q: undefined };
  const texts = ["Ärger", "a/b", 'say "no"', "back\\slash", "line\nend", "ΑΣ", "İstanbul", "plain", "x\u0000y", "tab\there"];
  for (const text of texts)
    for (const q of [text, text.toUpperCase(), text.toLowerCase(), text.slice(1), text.slice(0, -1)]) {
      const match = new LogMatch({ ...filter, q });
      for (const message of [text, `before ${text} after`, `${text}\n`]) {
        const one = record(1, { message });
        if (match.matches(one)) assert.ok(match.mayMatch(JSON.stringify([one])), JSON.stringify({ q, message }));
      }
    }
  const one = JSON.stringify([record(1)]);
  assert.equal(new LogMatch({ ...filter, q: "nowhere" }).mayMatch(one), false);
  assert.equal(new LogMatch({ ...filter, level: "error" }).mayMatch(one), false);
  assert.equal(new LogMatch({ ...filter, source: "nav2" }).mayMatch(one), false);
  assert.equal(new LogMatch({ ...filter, source: 'n"v' }).mayMatch(one), true);
});
