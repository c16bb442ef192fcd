import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { Role } from "@roamfleet/protocol";
import type { Client } from "@roamfleet/sdk";
import { stuckAt } from "@roamfleet/swarm/testing";
import { sql } from "../../packages/server/src/kernel/sql.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { checkEngine } from "./check-engine.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 240_000 };

type Scopes = { site_id?: string; fleet_id?: string }[];

/** Creates a member of the org with a token for deployments. */
async function member(plane: Harness, role: Role, scopes: Scopes = []) {
  const user = (await plane.api.createUser({ body: { email: `${randomUUID()}@example.org`, name: "Ada", role, scopes } })).data;
  const made = (await plane.api.createToken({ body: { label: "laptop", role, user_id: user.id } })).data;
  const api = plane.default_org.client(made.token ?? "");
  const deploy = async (release: { id: string }, target: { robot_id: string } | { fleet_id: string }, scheduled_at?: string) =>
    (await api.createDeployment({ body: { release: release.id, ...target, scheduled_at }, idempotency_key: randomUUID() })).data;
  return { user, token_id: made.id, api, deploy };
}

const remove = (plane: Harness, user: { id: string }) => plane.api.deleteUser({ params: { id: user.id } });
const ended = async (plane: Harness, id: string) => {
  const { status, reason } = await plane.deployment(id);
  return `${status} ${reason}`;
};
const ofRobot = async (plane: Harness, id: string, robot_id: string) => {
  const target = (await plane.targets(id)).get(robot_id);
  return `${target?.status} ${target?.reason}`;
};
const running = async (plane: Harness, robot_id: string) =>
  (await plane.api.getRobot({ params: { id: robot_id } })).data.current_release?.id ?? null;
const move = (plane: Harness, robot_id: string, fleet_id: string) =>
  plane.api.updateRobot({ params: { id: robot_id }, body: { fleet_id } });

test("a deployment skips a robot that has left its creator's fleet, but not the other robots", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, elsewhere] = [await plane.fleet(), await plane.fleet()];
  const [mover, stays] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(mover && stays);
  const { deploy } = await member(plane, "operator", [{ fleet_id }]);
  await mover.disconnect();
  const release = await plane.release();
  const { id } = await deploy(release, { fleet_id });
  await plane.settle();
  await move(plane, mover.id, elsewhere);
  await plane.settle();
  assert.equal(await ofRobot(plane, id, mover.id), "cancelled scope_lost");
  await mover.connect();
  await plane.settle();
  assert.equal(await running(plane, mover.id), null);
  assert.equal(await running(plane, stays.id), release.id);
  assert.equal(await ended(plane, id), "applied null");
  await checkEngine(plane, { ended: true });
});

test("a robot that was moved to another fleet is not rolled back with its old fleet", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, elsewhere] = [await plane.fleet(), await plane.fleet()];
  const [mover, stays, late] = await plane.enrollRobots(3, { fleet_id });
  assert.ok(mover && stays && late);
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { fleet_id });
  await plane.settle();
  const { deploy, api } = await member(plane, "operator", [{ fleet_id }]);
  late.behave(stuckAt("downloading"), release.id);
  const { id } = await deploy(release, { fleet_id });
  await plane.settle();
  await move(plane, mover.id, elsewhere);
  await api.rollBackDeployment({ params: { id } });
  await plane.settle();
  await plane.advance({ minutes: 3 });
  assert.equal(await running(plane, mover.id), release.id);
  assert.equal(await running(plane, stays.id), before.id);
  assert.equal(await ofRobot(plane, id, mover.id), "cancelled scope_lost");
  await checkEngine(plane, { ended: true });
});

test("an offline robot that moves to another fleet is not rolled back with its old fleet", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, elsewhere] = [await plane.fleet(), await plane.fleet()];
  const [mover, late] = await plane.enrollRobots(2, { fleet_id });
  assert.ok(mover && late);
  const [before, release] = [await plane.release(), await plane.release()];
  await plane.deploy(before, { fleet_id });
  await plane.settle();
  const { deploy, api } = await member(plane, "operator", [{ fleet_id }]);
  await late.disconnect();
  const { id } = await deploy(release, { fleet_id });
  await plane.settle();
  await mover.disconnect();
  await api.rollBackDeployment({ params: { id } });
  await plane.settle();
  await move(plane, mover.id, elsewhere);
  await plane.settle();
  await mover.connect();
  await plane.settle();
  assert.equal(await running(plane, mover.id), release.id);
  assert.equal(await ofRobot(plane, id, mover.id), "cancelled scope_lost");
  await checkEngine(plane, { ended: true });
});

test("a scheduled deployment is cancelled when its creator is removed", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [one, two] = await plane.enrollRobots(2);
  assert.ok(one && two);
  const { user, deploy } = await member(plane, "operator");
  const release = await plane.release();
  const at = "2030-01-01T00:01:00Z";
  const of_robot = await deploy(release, { robot_id: one.id }, at);
  const of_fleet = await deploy(release, { fleet_id: await plane.homeFleet() }, at);
  await remove(plane, user);
  await plane.settle();
  for (const { id } of [of_robot, of_fleet]) assert.equal(await ended(plane, id), "cancelled creator_removed");
  await plane.advance({ minutes: 2 });
  assert.deepEqual([await running(plane, one.id), await running(plane, two.id)], [null, null]);
  await checkEngine(plane, { ended: true });
});

/** A way in which a user loses permissions, and the reason with which the user's deployments then end. */
type Loss = { reason: string; take: (plane: Harness, of: { user_id: string; token_id: string; fleet_id: string }) => Promise<unknown> };
const LOSSES = {
  removed: { reason: "creator_removed", take: (plane, { user_id }) => remove(plane, { id: user_id }) },
  "token revoked": { reason: "creator_removed", take: (plane, { token_id }) => plane.api.revokeToken({ params: { id: token_id } }) },
  demoted: {
    reason: "scope_lost",
    take: (plane, { user_id }) => plane.api.updateUser({ params: { id: user_id }, body: { role: "viewer" } }),
  },
  "limited to another fleet": {
    reason: "scope_lost",
    take: (plane, { user_id, fleet_id }) => plane.api.updateUser({ params: { id: user_id }, body: { scopes: [{ fleet_id }] } }),
  },
} satisfies Record<string, Loss>;

for (const name of ["removed", "limited to another fleet"] as const)
  test(`when the creator is ${name}, all unfinished deployments end except running installations`, TIMEOUT, async () => {
    await using plane = await startPlane({ at: AT });
    const { reason, take } = LOSSES[name];
    const [away, downloading, installing] = await plane.enrollRobots(3);
    assert.ok(away && downloading && installing);
    const fleet_id = await plane.fleet();
    const in_fleet = await plane.enrollRobots(3, { fleet_id });
    const { user, token_id, deploy, api } = await member(plane, "operator");
    const release = await plane.release();
    await away.disconnect();
    downloading.behave(stuckAt("downloading"), release.id);
    installing.behave({ step_ms: { installing: 60_000 } }, release.id);
    const waits = await deploy(release, { robot_id: away.id });
    const fetches = await deploy(release, { robot_id: downloading.id });
    const installs = await deploy(release, { robot_id: installing.id });
    const config = (await api.createConfigDeployment({ body: { robot_id: away.id }, idempotency_key: randomUUID() })).data;
    await plane.settle();
    const waves = { waves: [{ count: 1, soak_seconds: 60 }, { percent: 100 }] };
    const in_waves = (
      await api.createDeployment({ body: { release: release.id, fleet_id, rollout: waves }, idempotency_key: randomUUID() })
    ).data;
    await plane.settle();
    await api.pauseDeployment({ params: { id: in_waves.id } });
    await take(plane, { user_id: user.id, token_id, fleet_id: await plane.fleet() });
    await plane.settle();
    assert.equal(await ended(plane, waits.id), `cancelled ${reason}`);
    assert.equal(await ended(plane, fetches.id), `cancelled ${reason}`);
    const ofConfig = (await plane.api.getConfigDeployment({ params: { id: config.id } })).data;
    assert.equal(`${ofConfig.status} ${ofConfig.reason}`, `cancelled ${reason}`);
    await away.connect();
    await plane.advance({ minutes: 6 });
    assert.equal(await ended(plane, installs.id), "applied null");
    assert.ok((await plane.deployment(in_waves.id)).finished_at !== null);
    const of_waves = await Promise.all(in_fleet.map((robot) => ofRobot(plane, in_waves.id, robot.id)));
    assert.deepEqual(of_waves.toSorted(), ["applied null", `cancelled ${reason}`, `cancelled ${reason}`]);
    assert.equal(await running(plane, away.id), null);
    assert.equal(await running(plane, downloading.id), null);
    await checkEngine(plane, { ended: true });
  });

test("a robot that leaves a fleet before the automatic update keeps its release", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, other] = [await plane.fleet(), await plane.fleet()];
  await plane.enrollRobot({ fleet_id });
  const busy = await plane.enrollRobot({ fleet_id: other });
  const [release, slow] = [await plane.release(), await plane.release()];
  await plane.deploy(release, { fleet_id });
  await plane.settle();
  busy.behave({ step_ms: { installing: 60_000 } }, slow.id);
  await plane.deploy(slow, { robot_id: busy.id });
  await plane.settle();
  // The automatic update starts only after the installation, and the robot is in another fleet by then.
  await move(plane, busy.id, fleet_id);
  await move(plane, busy.id, other);
  await plane.advance({ minutes: 3 });
  assert.equal(await running(plane, busy.id), slow.id);
  await checkEngine(plane, { ended: true });
});

test("an automatic deployment that was not dispatched is cancelled when its robot leaves the fleet", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const [fleet_id, other] = [await plane.fleet(), await plane.fleet()];
  await plane.enrollRobot({ fleet_id });
  await plane.deploy(await plane.release(), { fleet_id });
  await plane.settle();
  // The robot's automatic deployment is created, but the trigger prevents its dispatch and its end.
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.created_by ->> 'type' = 'system' and (new.count_active > 0 or new.finished_at is not null) then raise exception 'planned: not now'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment for each row execute function test_fault()`);
  const late = await plane.enrollRobot({ fleet_id });
  await plane.settle();
  await move(plane, late.id, other);
  await plane.settle();
  await plane.db.run(sql`delete from authority_change`);
  await plane.db.run(sql`drop trigger test_fault on deployment`);
  await plane.advance({ minutes: 3 });
  assert.equal(late.runs(), undefined);
  const { items } = await plane.api.listDeployments({ query: { robot_id: late.id } });
  assert.deepEqual(
    items.map(({ created_by, status, reason }) => [created_by.type, status, reason]),
    [["system", "cancelled", "scope_lost"]],
  );
  await checkEngine(plane, { ended: true });
});

/** Enrolls a new computer with a key. Returns the status and, if refused, the message. */
async function enroll(plane: Harness, key: string | null): Promise<string> {
  const public_key = Buffer.from(randomUUID().replaceAll("-", "").padEnd(32, "0")).toString("base64");
  const response = await plane.default_org.client().request("POST", "/agent/enroll", { body: { key, public_key } });
  const { error } = (await response.json()) as { error?: { message: string } };
  return `${response.status} ${error?.message ?? ""}`.trim();
}

const newKey = async (plane: Harness, api: Client, fleet_id: string) => {
  const { site_id } = (await plane.api.getFleet({ params: { id: fleet_id } })).data;
  return (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: 0, expires_in_hours: 0 } })).data;
};

test("an enrollment key enrolls no robots after its creator was removed or lost permission", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const fleet_id = await plane.fleet();
  const status = async (id: string) => (await plane.api.getEnrollmentKey({ params: { id } })).data.status;
  for (const [name, { reason, take }] of Object.entries(LOSSES)) {
    const { user, token_id, api } = await member(plane, "operator");
    const key = await newKey(plane, api, fleet_id);
    assert.equal(await enroll(plane, key.key), "201", name);
    await take(plane, { user_id: user.id, token_id, fleet_id: await plane.fleet() });
    if (reason === "creator_removed") {
      assert.equal(await status(key.id), "revoked", name);
      assert.equal(await enroll(plane, key.key), "403 the enrollment key is revoked", name);
    } else {
      assert.equal(await enroll(plane, key.key), "403 the creator of the enrollment key may no longer enroll robots into its fleet", name);
      assert.equal((await plane.api.getEnrollmentKey({ params: { id: key.id } })).data.uses, 1, name);
    }
  }
});
