import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { ServerMessage } from "@roamfleet/protocol/link";
import { createCredential } from "../tokens/index.ts";
import { sql } from "../../kernel/sql.ts";
import { ingestLogs } from "../logs/index.ts";
import { fakeSession, helloOf } from "../testing/places.ts";
import { seedRobot } from "../testing/seed-robot.ts";
import { flush, range, record, startRig } from "./testing/rig.ts";

const TIMEOUT = { timeout: 120_000 };

test("a viewer gets only matching log records, both stored and live", TIMEOUT, async () => {
  await using it = await startRig();
  const mixed = (from: number, to: number) => ({
    type: "logs" as const,
    records: range(from, to).map((seq) =>
      record(seq, {
        level: seq % 5 === 0 ? "error" : "info",
        source: seq % 2 === 0 ? "nav2" : "arm",
        message: seq % 3 === 0 ? `Motor ${seq}` : `${seq}`,
      }),
    ),
  });
  for (let from = 1; from <= 2_000; from += 50) await ingestLogs(it.plane, it.session, mixed(from, from + 49));
  const view = (query: string) => it.view(`${it.path}?token=${it.token}&${query}`);
  const [errors, arm, motor] = [view("level=error"), view("source=arm"), view("q=MOTOR&level=error&source=nav2")];
  await until("the stored ones", () => errors.seqs.length === 100 && arm.seqs.length === 100 && motor.seqs.length === 66);
  assert.deepEqual(
    errors.seqs,
    range(301, 400).map((n) => n * 5),
  );
  assert.deepEqual(
    motor.seqs,
    range(1, 66).map((n) => n * 30),
  );
  await ingestLogs(it.plane, it.session, mixed(2_001, 2_020));
  await until("the live ones", () => arm.seqs.at(-1) === 2_019 && motor.seqs.at(-1) === 2_010 && errors.seqs.at(-1) === 2_020);
  assert.deepEqual(errors.seqs.slice(100), [2_005, 2_010, 2_015, 2_020]);
  for (const query of ["level=loud", "source=", `q=${"x".repeat(201)}`, "after=yesterday", "since=2030-01-01T00:00:00Z"])
    assert.deepEqual((await it.refused(`${it.path}?token=${it.token}&${query}`)).code, "bad_request", query);
});

test("a reconnecting log viewer resumes without a gap while more records arrive", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 10));
  const first = it.view();
  await until("the first ten", () => first.seqs.length === 10);
  const after = first.records.at(-1)?.received_at ?? "";
  first.ws.terminate();
  await it.rig.clock.advance({ seconds: 1 });
  let seq = 11;
  const more = async (flushes: number): Promise<void> => {
    for (let i = 0; i < flushes; i += 1, seq += 10) await ingestLogs(it.plane, it.session, flush(seq, seq + 9));
  };
  await more(150);
  const again = it.view(`${it.path}?token=${it.token}&after=${after}`);
  await more(150);
  await until("all of it", () => again.seqs.at(-1) === seq - 1);
  assert.deepEqual(again.seqs, range(1, seq - 1));
});

test("a fleet's log stream includes robots that join, and stays open while robots are offline", TIMEOUT, async () => {
  await using it = await startRig();
  const { fleet_id, site_id } = it;
  const second = await seedRobot(it.plane, it.org_id, { fleet_id, site_id });
  const other = await seedRobot(it.plane, it.org_id);
  const linkOf = (robot_id: string) => {
    const sent: ServerMessage[] = [];
    const session = {
      ...fakeSession(`sess_${robot_id}`, it.org_id, helloOf(robot_id)),
      send: (message: ServerMessage) => sent.push(message) > 0,
    };
    it.sessions.set(robot_id, session);
    return { session, sent };
  };
  const [two, three] = [linkOf(second.robot_id), linkOf(other.robot_id)];
  await ingestLogs(it.plane, it.session, flush(1, 70));
  await ingestLogs(it.plane, two.session, flush(1, 70));
  await ingestLogs(it.plane, three.session, flush(1, 70));
  const path = `/api/fleets/${fleet_id}/logs/ws?token=${it.token}`;
  const viewer = it.view(path);
  await until("the stored records", () => viewer.records.length === 100);
  assert.ok(viewer.records.every(({ robot_id }) => robot_id === it.robot_id || robot_id === second.robot_id));
  // A viewer of a fleet does not request immediate logs: those of a thousand robots would be too much load.
  assert.deepEqual(
    [...it.sent, ...two.sent].filter(({ type }) => type === "log_follow"),
    [],
  );
  viewer.records.length = 0;
  await ingestLogs(it.plane, it.session, flush(71, 72));
  await ingestLogs(it.plane, two.session, flush(71, 72));
  await ingestLogs(it.plane, three.session, flush(71, 72));
  await until("the live ones", () => viewer.records.length === 4);
  const joined = await seedRobot(it.plane, it.org_id, { fleet_id, site_id });
  const four = linkOf(joined.robot_id);
  const hasJoined = (): boolean => viewer.records.some(({ robot_id }) => robot_id === joined.robot_id);
  let seq = 0;
  await until("the one that joined", hasJoined, {
    meanwhile: async () => {
      await it.rig.clock.advance({ seconds: 6 });
      await ingestLogs(it.plane, four.session, flush((seq += 1), seq));
    },
  });
  for (const id of [it.robot_id, second.robot_id, joined.robot_id]) it.sessions.delete(id);
  await it.rig.clock.advance({ seconds: 2 });
  assert.equal(viewer.ws.readyState, viewer.ws.OPEN);
  const after = viewer.records[0]?.received_at ?? "";
  const again = it.view(`${path}&after=${after}`);
  await until("what came since", () => again.records.length >= 4);
  assert.ok(again.records.every(({ received_at }) => received_at >= after));
  for (const [id, status] of [
    ["fleet_00000000000000000000000000", 404],
    [it.robot_id, 404],
  ] as const)
    assert.equal((await it.refused(`/api/fleets/${id}/logs/ws?token=${it.token}`)).status, status);
});

test("a log stream continues live if the robot connects while its stored records are read", TIMEOUT, async () => {
  await using it = await startRig();
  await ingestLogs(it.plane, it.session, flush(1, 10));
  it.sessions.delete(it.robot_id);
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const { promise: locked, resolve: lock } = Promise.withResolvers<void>();
  const holding = it.plane.db.transaction(async (tx) => {
    await tx.run(sql`lock table log_batch in access exclusive mode`);
    lock();
    await released;
  });
  try {
    await locked;
    const viewer = it.view();
    await viewer.headers;
    it.sessions.set(it.robot_id, it.session);
    release();
    await until("the stored records", () => viewer.seqs.length === 10);
    await ingestLogs(it.plane, it.session, flush(11, 20));
    await Promise.race([
      until("the live ones", () => viewer.seqs.at(-1) === 20),
      viewer.closed.then((ending) => assert.fail(`the stream ended: ${ending}`)),
    ]);
  } finally {
    release();
    await holding;
  }
});

test("a viewer limited to a fleet gets no records of a robot from 1 s after it left the fleet", TIMEOUT, async () => {
  await using it = await startRig();
  const { fleet_id, site_id, org_id } = it;
  const { secret } = await createCredential(it.plane.db, it.plane, { kind: "org", org_id, role: "operator", scopes: [{ fleet_id }] });
  const stays = await seedRobot(it.plane, org_id, { fleet_id, site_id });
  const elsewhere = await seedRobot(it.plane, org_id, { site_id });
  const two = fakeSession("sess_2", org_id, helloOf(stays.robot_id));
  it.sessions.set(stays.robot_id, two);
  const viewer = it.view(`/api/fleets/${fleet_id}/logs/ws?token=${secret}`);
  await ingestLogs(it.plane, it.session, flush(1, 1));
  await ingestLogs(it.plane, two, flush(1, 1));
  await until("both", () => viewer.records.length === 2);
  await it.plane.db.run(sql`update robot set fleet_id = ${elsewhere.fleet_id} where id = ${it.robot_id}`);
  await it.rig.clock.advance({ seconds: 1 });
  await ingestLogs(it.plane, it.session, flush(2, 2));
  await ingestLogs(it.plane, two, flush(2, 2));
  await until("the one that stays", () => viewer.records.some(({ robot_id, seq }) => robot_id === stays.robot_id && seq === 2));
  assert.deepEqual(
    viewer.records.filter(({ robot_id }) => robot_id === it.robot_id).map(({ seq }) => seq),
    [1],
  );
});
