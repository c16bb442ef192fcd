import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rollout } from "@roamfleet/protocol/routes";
import { ApiError } from "@roamfleet/sdk";
import { rollBack, type SimulatedRobot, slow } from "@roamfleet/swarm/testing";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";
import { seedRobots } from "./seed-robots.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = "2030-01-01T00:00:00Z";

/** Creates a fleet of connected robots, in order of id, which is the order of the waves. */
async function fleetOf(plane: Harness, count: number): Promise<{ fleet_id: string; robots: SimulatedRobot[] }> {
  const fleet_id = await plane.fleet();
  const robots = await plane.enrollRobots(count, { fleet_id });
  return { fleet_id, robots: robots.toSorted((a, b) => (a.id < b.id ? -1 : 1)) };
}

async function rollOut(plane: Harness, fleet_id: string, rollout: Rollout): Promise<string> {
  const { id } = await plane.deploy(await plane.release(), { fleet_id }, { rollout });
  await plane.settle();
  return id;
}

const wavesOf = async (plane: Harness, id: string): Promise<string[]> =>
  (await plane.api.listDeploymentWaves({ params: { id } })).items.map(({ status, applied, total }) => `${status} ${applied}/${total}`);
const refused = (message: RegExp) => (error: unknown) => error instanceof ApiError && error.status === 409 && message.test(error.message);
const at = (id: string) => ({ params: { id } });

test("a rollout runs its waves in order with soak times and a manual gate", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id } = await fleetOf(plane, 8);
  const waves: Rollout["waves"] = [
    { count: 1, soak_seconds: 60 },
    { percent: 50, gate: "manual" },
  ];
  const id = await rollOut(plane, fleet_id, { waves });
  assert.deepEqual(await wavesOf(plane, id), ["soaking 1/1", "pending 0/3", "pending 0/4"]);
  await plane.advance({ seconds: 50 });
  await plane.restart();
  assert.deepEqual(await wavesOf(plane, id), ["soaking 1/1", "pending 0/3", "pending 0/4"]);
  await plane.advance({ seconds: 15 });
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/1", "passed 3/3", "gate 0/4"]);
  await plane.advance({ minutes: 1 });
  const gated = await plane.deployment(id);
  assert.deepEqual([gated.status, gated.wave, gated.wave_count, gated.counts.queued], ["in_progress", 2, 3, 4]);
  assert.equal(gated.awaiting_promotion, true);
  assert.ok([...(await plane.targets(id)).values()].every(({ wave, waiting_for }) => waiting_for === (wave === 2 ? "gate" : null)));
  await checkEngine(plane);
  await plane.api.promoteDeployment(at(id));
  await plane.settle();
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/1", "passed 3/3", "passed 4/4"]);
  assert.equal((await plane.deployment(id)).awaiting_promotion, false);
  const { items } = await plane.api.listDeploymentWaves(at(id));
  assert.equal(items.at(-1)?.passed_at, (await plane.deployment(id)).finished_at, "the last one passed as its deployment ended");
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a wave reports how many of its queued robots are offline", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id } = await fleetOf(plane, 2);
  await seedRobots(plane, fleet_id, 250);
  const id = await rollOut(plane, fleet_id, { waves: [{ count: 52 }] });
  const offline = async (of: string) => (await plane.api.listDeploymentWaves(at(of))).items.map((wave) => wave.offline);
  assert.deepEqual(await offline(id), [50, 200]);
  assert.deepEqual(await offline(await rollOut(plane, fleet_id, {})), [250]);
});

test("offline robots neither pass nor fail a wave, but restart its soak time when they return", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, robots } = await fleetOf(plane, 4);
  const [first, second] = robots as [SimulatedRobot, SimulatedRobot];
  for (const robot of [first, second]) await robot.disconnect();
  await plane.settle();
  const id = await rollOut(plane, fleet_id, { waves: [{ count: 2, soak_seconds: 60 }] });
  await plane.advance({ minutes: 2 });
  assert.deepEqual(await wavesOf(plane, id), ["open 0/2", "pending 0/2"]);
  await assert.rejects(plane.api.promoteDeployment(at(id)), refused(/none of its robots has reported, 2 are offline/));
  await first.connect();
  await plane.settle();
  assert.deepEqual(await wavesOf(plane, id), ["soaking 1/2", "pending 0/2"]);
  await plane.advance({ seconds: 50 });
  second.behave(slow(5_000));
  await second.connect();
  await plane.settle();
  assert.deepEqual(await wavesOf(plane, id), ["open 1/2", "pending 0/2"]);
  await assert.rejects(plane.api.promoteDeployment(at(id)), refused(/wave 1 of 2 .* has not passed: 1 of its robots have not finished/));
  await plane.advance({ seconds: 25 });
  assert.deepEqual(await wavesOf(plane, id), ["soaking 2/2", "pending 0/2"]);
  await plane.advance({ seconds: 40 });
  assert.deepEqual(await wavesOf(plane, id), ["soaking 2/2", "pending 0/2"]);
  await plane.advance({ seconds: 25 });
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a paused deployment dispatches no targets until it is resumed", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, robots } = await fleetOf(plane, 6);
  const away = robots[1] as SimulatedRobot;
  await away.disconnect();
  await plane.settle();
  for (const robot of robots) robot.behave(slow(2_000));
  const id = await rollOut(plane, fleet_id, { waves: [{ count: 3 }], max_parallel: 1 });
  const dispatched = async (): Promise<number> =>
    (await plane.events(id, { targets: true })).filter((kind) => kind === "target.dispatched").length;
  assert.equal(await dispatched(), 1);
  const { data } = await plane.api.pauseDeployment(at(id));
  assert.deepEqual([data.status, data.paused_at !== null], ["paused", true]);
  await assert.rejects(plane.api.promoteDeployment(at(id)), refused(/is paused/));
  await away.connect();
  await plane.advance({ seconds: 40 });
  await plane.restart();
  await plane.advance({ seconds: 20 });
  const { status, counts } = await plane.deployment(id);
  assert.deepEqual([await dispatched(), status, counts.applied, counts.queued, counts.pending], [1, "paused", 1, 2, 3]);
  await plane.api.resumeDeployment(at(id));
  await assert.rejects(plane.api.resumeDeployment(at(id)), refused(/is not paused: in_progress/));
  await plane.advance({ seconds: 90 });
  assert.equal((await plane.deployment(id)).status, "applied");
  await checkEngine(plane, { ended: true });
});

test("a rollout that awaits promotion expires at its expiry time", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id } = await fleetOf(plane, 3);
  const id = await rollOut(plane, fleet_id, { waves: [{ count: 1, gate: "manual" }, { count: 2 }], expires_at: "2030-01-01T00:02:00Z" });
  await plane.api.pauseDeployment(at(id));
  await plane.advance({ minutes: 3 });
  const { status, counts } = await plane.deployment(id);
  assert.deepEqual([status, counts.applied, counts.cancelled], ["applied", 1, 2]);
  const reasons = [...(await plane.targets(id)).values()].map(({ reason }) => reason);
  assert.equal(reasons.filter((reason) => reason === "expired").length, 2);
  await checkEngine(plane, { ended: true });
});

test("assigns the robots of a large fleet to waves over several transactions and a restart", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id } = await fleetOf(plane, 1);
  await seedRobots(plane, fleet_id, 5_999);
  const { id } = await plane.deploy(await plane.release(), { fleet_id }, { rollout: { waves: [{ percent: 90 }] } });
  await plane.restart();
  await plane.advance({ seconds: 10 });
  // The only connected robot is updated; offline robots do not block a wave.
  assert.deepEqual(await wavesOf(plane, id), ["passed 1/5400", "open 0/600"]);
  const { counts } = await plane.deployment(id);
  assert.deepEqual([counts.total, counts.applied, counts.queued, counts.pending], [6_000, 1, 5_999, 0]);
  await checkEngine(plane);
});

/** Rows of the tables that creating a deployment writes to. */
const countRows = ({ db }: Harness) =>
  db.one(sql(row({ count: int }))`
    select (select count(*) from deployment)::int + (select count(*) from deployment_target)::int + (select count(*) from idempotency)::int
      + (select count(*) from audit_entry)::int as count`);

test("a dry run returns the wave of each robot and stores nothing", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, robots } = await fleetOf(plane, 5);
  const old = await plane.enrollRobot({ fleet_id, kinds: ["app_bundle"], online: true });
  const release = await plane.release({ bytes: "0123456789" });
  await plane.deploy(release, { robot_id: (robots[0] as SimulatedRobot).id });
  await plane.settle();
  await (robots[4] as SimulatedRobot).disconnect();
  await plane.settle();
  const before = await countRows(plane);
  const body = { release: release.id, fleet_id, rollout: { waves: [{ count: 2 }] } };
  const ask = (more: object) =>
    plane.api.request("POST", "/api/deployments", {
      body: JSON.stringify({ ...body, ...more }),
      headers: { "content-type": "application/json", "idempotency-key": "planned" },
    });
  const response = await ask({ dry_run: true });
  const { data } = (await response.json()) as { data: Record<string, unknown> & { robots: { robot_id: string; wave: number }[] } };
  assert.equal(response.status, 200);
  const in_policy = await ask({ rollout: { ...body.rollout, dry_run: true } });
  assert.deepEqual([in_policy.status, ((await in_policy.json()) as { data: unknown }).data], [200, data], "the policy may set dry_run too");
  const { total, offline, incompatible, already_installed, bytes_to_send, expires_at } = data;
  assert.deepEqual(
    { total, offline, incompatible, already_installed, bytes_to_send, expires_at },
    { total: 6, offline: 1, incompatible: 1, already_installed: 1, bytes_to_send: 40, expires_at: "2030-01-08T00:00:00.000Z" },
  );
  assert.deepEqual(await countRows(plane), before);
  const planned = new Map(data.robots.map(({ robot_id, wave }) => [robot_id, wave]));
  // The preview did not use up the idempotency key.
  const { id } = await plane.deploy(release, { fleet_id }, { rollout: body.rollout, idempotency_key: "planned" });
  await plane.settle();
  for (const [robot_id, { wave }] of await plane.targets(id)) assert.equal(wave, planned.get(robot_id));
  assert.equal((await plane.targets(id)).get(old.id)?.reason, "incompatible");
});

const HALTS: [on_failure: "stop" | "pause" | "rollback", status: string, applied: number][] = [
  ["stop", "failed", 3],
  ["pause", "paused", 3],
  ["rollback", "rolled_back", 0],
];
for (const [on_failure, status, applied] of HALTS) {
  test(`a rollout with policy ${on_failure} updates no robots of later waves after too many failures`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const { fleet_id, robots } = await fleetOf(plane, 12);
    const first = await rollOut(plane, fleet_id, {});
    const { status: before, release } = await plane.deployment(first);
    assert.equal(before, "applied");
    for (const robot of robots.slice(3, 6)) robot.behave(rollBack());
    const threshold = { percent: 30, min_decided: 4 };
    const id = await rollOut(plane, fleet_id, { waves: [{ count: 2 }, { count: 6 }], failure_threshold: threshold, on_failure });
    await plane.advance({ seconds: 20 });
    const { counts, reason, ...seen } = await plane.deployment(id);
    assert.deepEqual([seen.status, reason, counts.applied], [status, "threshold_exceeded", applied]);
    const events = (await plane.api.listDeploymentEvents({ params: { id }, query: { include: "targets", limit: 1_000 } })).items;
    const last_wave = new Set([...(await plane.targets(id)).values()].filter(({ wave }) => wave === 2).map(({ robot_id }) => robot_id));
    assert.equal(last_wave.size, 6);
    assert.deepEqual(
      events.filter(({ kind, robot_id }) => kind === "target.dispatched" && last_wave.has(robot_id ?? "")),
      [],
    );
    if (on_failure === "pause") {
      assert.equal(counts.pending, 6);
      for (const robot of robots.slice(6, 8)) robot.behave(rollBack());
      await plane.api.resumeDeployment(at(id));
      await plane.advance({ seconds: 10 });
      // Resuming accepted the earlier failures, and no robot failed afterwards.
      assert.equal((await plane.deployment(id)).counts.applied, 7);
    } else assert.ok([...(await plane.targets(id)).values()].every(({ wave, status }) => wave !== 2 || status === "cancelled"));
    if (on_failure === "rollback") for (const robot of robots) assert.equal(robot.runs(), release.tag);
    await checkEngine(plane, { ended: true });
  });
}

test("a deployment resumed above its failure threshold is paused again by the next failure", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, robots } = await fleetOf(plane, 22);
  for (const robot of [robots[0], robots[5]]) robot?.behave(rollBack());
  for (const robot of robots.slice(6)) robot.behave(slow(20_000));
  const id = await rollOut(plane, fleet_id, {
    waves: [{ count: 2 }, { count: 22 }],
    failure_threshold: { percent: 30 },
    on_failure: "pause",
  });
  await plane.advance({ seconds: 40 });
  const first = await plane.deployment(id);
  assert.deepEqual([first.status, first.reason, first.counts.failed], ["paused", "threshold_exceeded", 1]);
  await plane.api.resumeDeployment(at(id));
  await plane.advance({ seconds: 15 });
  const second = await plane.deployment(id);
  // The failure rate is 2 of 22 robots: 9%.
  assert.deepEqual([second.status, second.reason, second.counts.failed], ["paused", "threshold_exceeded", 2]);
  await plane.api.resumeDeployment(at(id));
  await plane.advance({ minutes: 5 });
  assert.equal((await plane.deployment(id)).counts.applied, 20);
  await checkEngine(plane, { ended: true });
});

test("a manual pause below the failure threshold does not change the threshold", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const { fleet_id, robots } = await fleetOf(plane, 6);
  for (const robot of [robots[0], robots[3]]) robot?.behave(rollBack());
  const id = await rollOut(plane, fleet_id, {
    waves: [{ count: 3, gate: "manual" }, { count: 4 }, { count: 6 }],
    failure_threshold: { count: 2 },
    on_failure: "pause",
  });
  await plane.advance({ seconds: 40 });
  const before = (await plane.deployment(id)).counts;
  assert.deepEqual([before.applied, before.rolled_back + before.failed], [2, 1]);
  await plane.api.pauseDeployment(at(id));
  await plane.api.resumeDeployment(at(id));
  await plane.api.promoteDeployment(at(id));
  await plane.advance({ minutes: 1 });
  const { status, counts } = await plane.deployment(id);
  assert.deepEqual([status, counts.applied, counts.failed], ["applied", 4, 2]);
  await checkEngine(plane, { ended: true });
});
