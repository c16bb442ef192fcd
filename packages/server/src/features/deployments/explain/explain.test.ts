import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import type { ConditionName } from "@roamfleet/protocol";
import type { Explanation, Rollout } from "@roamfleet/protocol/routes";
import { json, sql, type Statement } from "../../../kernel/sql.ts";
import { createCredential } from "../../tokens/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { createDeployment } from "../create/create.ts";
import { dispatchQueued } from "../dispatch/dispatch.ts";
import { Postponed } from "../reconciler.ts";
import { promoteDeployment, resumeDeployment } from "../rollout/pause.ts";
import { deploymentRoutes } from "../routes.ts";

const TIMEOUT = { timeout: 240_000 };

/** An org with a deployment of a release to a fleet of two robots, which waits for nothing. The explanations are about the second robot. */
interface Rig {
  it: FeaturePlane;
  org_id: string;
  token: string;
  token_id: string;
  robot_id: string;
  fleet_id: string;
  release_id: string;
  deployment_id: string;
  /** Runs a statement. */
  run(statement: Statement<unknown>): Promise<unknown>;
  explain(deployment_id?: string): Promise<Explanation>;
}

async function startRig(it: FeaturePlane, rollout: Rollout): Promise<Rig> {
  const { plane } = it;
  const { org_id, token, token_id } = await it.org();
  const { fleet_id, site_id } = await seedRobot(plane, org_id);
  const { robot_id } = await seedRobot(plane, org_id, { fleet_id, site_id });
  const run = (statement: Statement<unknown>) => plane.db.run(statement);
  const now = it.clock.now();
  await run(sql`
    update robot set node_id = 'node_a', node_epoch = 1, kinds = '["file"]', last_seen_at = ${now}, platform = '{"arch":"x64"}'
    where org_id = ${org_id}`);
  const release_id = plane.id("rel");
  await run(sql`
    insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
    values (${org_id}, ${release_id}, 'nav-2', 'file', 'main', ${hash("sha256", "one")}, 3, 'stored', '{}', ${now}, ${now})`);
  const caller = await plane.authenticators.portal(token, org_id);
  const { row } = await createDeployment(plane.db.forOrg(org_id), plane, caller, { release: release_id, fleet_id, rollout });
  await run(sql`update deployment_target set waiting_for = null where org_id = ${org_id} and waiting_for = 'slot'`);
  const explain = async (deployment_id?: string) => {
    const query = deployment_id === undefined ? "" : `?deployment_id=${deployment_id}`;
    const reply = await it.call<{ data: Explanation }>("GET", `/api/robots/${robot_id}/explain${query}`, { token });
    assert.equal(reply.status, 200, JSON.stringify(reply.body));
    return reply.body.data;
  };
  return { it, org_id, token, token_id, robot_id, fleet_id, release_id, deployment_id: row.id, run, explain };
}

const unmet = ({ conditions }: Explanation): ConditionName[] => conditions.filter(({ met }) => met === false).map(({ name }) => name);

interface Cause {
  rollout?: Rollout;
  plant: (rig: Rig) => Promise<unknown>;
  /** Applies the proposed change, or lets the time pass that the explanation names. */
  fix?: (rig: Rig) => Promise<unknown>;
  /** Causes with the same word exclude each other, for example because a target has one status. */
  excludes?: readonly string[];
}

const ofRobot = ({ org_id, robot_id }: Rig) => sql`org_id = ${org_id} and robot_id = ${robot_id}`;
const ofTarget = (rig: Rig) => sql`${ofRobot(rig)} and deployment_id = ${rig.deployment_id}`;
const setRobot = (set: Statement<unknown>) => (rig: Rig) =>
  rig.run(sql`update robot set ${set} where org_id = ${rig.org_id} and id = ${rig.robot_id}`);
const setDeployment = (set: Statement<unknown>) => (rig: Rig) =>
  rig.run(sql`update deployment set ${set} where org_id = ${rig.org_id} and id = ${rig.deployment_id}`);
const setTarget = (set: Statement<unknown>) => (rig: Rig) => rig.run(sql`update deployment_target set ${set} where ${ofTarget(rig)}`);
const setRelease = (set: Statement<unknown>) => (rig: Rig) => rig.run(sql`update release set ${set} where org_id = ${rig.org_id}`);

/** Everything that can keep a robot from installing a release, by the condition that is then unmet. */
const CAUSES: Partial<Record<ConditionName, Cause>> = {
  robot_in_service: { plant: setRobot(sql`decommissioned_at = now()`) },
  included: {
    excludes: ["target"],
    plant: (rig) => rig.run(sql`delete from deployment_target where ${ofTarget(rig)}`),
  },
  not_superseded: {
    plant: (rig) =>
      rig.run(sql`
        insert into robot_app (org_id, robot_id, app, last_order_number, updated_at)
        values (${rig.org_id}, ${rig.robot_id}, 'main', 9000000000, now())`),
  },
  result: { excludes: ["target", "begun"], plant: setTarget(sql`status = 'failed', reason = 'insufficient_disk'`) },
  started: {
    excludes: ["target", "status"],
    plant: setDeployment(sql`status = 'scheduled', scheduled_at = '2030-01-01T06:00:00Z', fan_out_done_at = null`),
  },
  not_stopped: { plant: setDeployment(sql`cancel_requested_at = now()`) },
  not_expired: { plant: setDeployment(sql`expires_at = '2029-12-31T00:00:00Z'`) },
  not_paused: {
    excludes: ["status"],
    plant: setDeployment(sql`status = 'paused', paused_at = '2030-01-01T00:00:00Z'`),
    fix: async ({ it: { plane }, org_id, deployment_id, token }) => {
      const { actor } = await plane.authenticators.portal(token, org_id);
      await resumeDeployment(plane.db.forOrg(org_id), plane, org_id, deployment_id, actor);
    },
  },
  allowed: {
    plant: async (rig) => {
      const { token_id } = await rig.it.org();
      await rig.run(
        sql`update deployment set authority = ${json({ token_id })} where org_id = ${rig.org_id} and id = ${rig.deployment_id}`,
      );
    },
  },
  release_exists: { excludes: ["release"], plant: (rig) => rig.run(sql`delete from release where org_id = ${rig.org_id}`) },
  artifact: {
    excludes: ["release"],
    plant: setRelease(sql`artifact_state = 'awaiting_upload'`),
    fix: setRelease(sql`artifact_state = 'stored'`),
  },
  wave: { excludes: ["target"], rollout: { waves: [{ count: 1 }, { count: 100 }] }, plant: async () => {} },
  gate: {
    excludes: ["target"],
    rollout: { waves: [{ count: 1, gate: "manual" }, { count: 100 }] },
    plant: async (rig) => {
      const { org_id, deployment_id, robot_id } = rig;
      await rig.run(sql`update deployment_target set status = 'applied' where org_id = ${org_id} and robot_id <> ${robot_id}`);
      await rig.run(
        sql`update deployment_wave set count_queued = 0, count_applied = 1 where org_id = ${org_id} and deployment_id = ${deployment_id} and wave = 0`,
      );
      await setDeployment(sql`wave_passed_at = now(), count_queued = 0, count_applied = 1`)(rig);
    },
    fix: async ({ it: { plane }, org_id, deployment_id, token }) => {
      const { actor } = await plane.authenticators.portal(token, org_id);
      await promoteDeployment(plane.db.forOrg(org_id), plane, org_id, deployment_id, actor);
    },
  },
  robot_admitted: { plant: setRobot(sql`held_at = now()`), fix: setRobot(sql`held_at = null`) },
  robot_online: { plant: setRobot(sql`node_id = null`), fix: setRobot(sql`node_id = 'node_a'`) },
  kind: { excludes: ["release"], plant: setRobot(sql`kinds = '["app_bundle"]'`), fix: setRobot(sql`kinds = '["app_bundle", "file"]'`) },
  architecture: {
    excludes: ["release", "target"],
    plant: async (rig) => {
      await setRelease(sql`kind = 'agent', manifest = '{"arch":"arm64"}'`)(rig);
      await setRobot(sql`kinds = '["agent"]'`)(rig);
    },
  },
  previous_deployment: {
    plant: async (rig) => {
      await rig.run(sql`
        insert into deployment (org_id, id, kind, target_kind, robot_id, status, fan_out_done_at, count_total, count_active, created_by, created_at, updated_at, order_number)
        values (${rig.org_id}, 'dep_earlier', 'release', 'robot', ${rig.robot_id}, 'in_progress', now(), 1, 1, '{}', now(), now(), 0)`);
      await rig.run(sql`
        insert into deployment_target (org_id, deployment_id, id, kind, robot_id, subject, status, created_at, updated_at)
        values (${rig.org_id}, 'dep_earlier', 'tgt_earlier', 'release', ${rig.robot_id}, 'main', 'installing', now(), now())`);
    },
    fix: (rig) => rig.run(sql`update deployment_target set status = 'applied' where org_id = ${rig.org_id} and id = 'tgt_earlier'`),
  },
  max_parallel: {
    excludes: ["begun"],
    rollout: { max_parallel: 1 },
    plant: setDeployment(sql`count_active = 1`),
    fix: setDeployment(sql`count_active = 0`),
  },
  max_unavailable: {
    // Without a target, the robot belongs to no group. An offline robot is unavailable already, so it needs no room.
    excludes: ["begun", "target", "group"],
    rollout: { max_unavailable: { count: 1 } },
    plant: (rig) => rig.run(sql`update robot set node_id = null where org_id = ${rig.org_id} and id <> ${rig.robot_id}`),
    fix: (rig) => rig.run(sql`update robot set node_id = 'node_a' where org_id = ${rig.org_id}`),
  },
  attempt: {
    excludes: ["target"],
    plant: setTarget(sql`attempt = 1, not_before_at = '2030-01-01T00:00:20Z'`),
    fix: ({ it }) => it.clock.advance({ seconds: 21 }),
  },
  window: {
    excludes: ["begun"],
    rollout: { window: { cron: "0 2 * * *", time_zone: "UTC", duration_minutes: 60 } },
    plant: async () => {},
    fix: ({ it }) => it.clock.advance({ hours: 2, minutes: 1 }),
  },
  robot_allows: {
    excludes: ["target", "begun"],
    plant: setTarget(sql`status = 'staged', waiting_for = 'robot'`),
    fix: setTarget(sql`status = 'queued', waiting_for = null`),
  },
};
const NAMES = Object.keys(CAUSES) as ConditionName[];
const causeOf = (name: ConditionName): Cause => CAUSES[name] as Cause;

/** Whether two causes cannot occur together. */
const exclude = (a: ConditionName, b: ConditionName): boolean =>
  (causeOf(a).excludes ?? []).some((word) => causeOf(b).excludes?.includes(word) === true) ||
  // A decommissioned robot belongs to no group, and an unavailable one needs no room in it.
  [a, b].every((name) => ["max_unavailable", "robot_online", "robot_in_service"].includes(name));

test("a robot that nothing keeps from a release is explained as installing it, and then as running it", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const rig = await startRig(it, {});
  const before = await rig.explain();
  assert.deepEqual([before.deployment_id, before.state, unmet(before)], [rig.deployment_id, "installing", []]);
  assert.equal(before.release?.tag, "nav-2");
  while (await dispatchQueued(it.plane.db, it.plane, new Postponed()));
  assert.equal((await rig.explain(rig.deployment_id)).state, "installing");
  await setTarget(sql`status = 'applied'`)(rig);
  await rig.run(sql`update robot_app set current_release_id = ${rig.release_id}, target_id = null where ${ofRobot(rig)}`);
  const { state, summary } = await rig.explain();
  assert.deepEqual([state, summary], ["installed", "the robot runs nav-2"]);
});

test("each cause is named alone, and the proposed change or the named time removes it", TIMEOUT, async (t) => {
  assert.ok(NAMES.length >= 18);
  for (const name of NAMES)
    await t.test(name, async () => {
      await using it = await startFeaturePlane([deploymentRoutes]);
      const { rollout = {}, plant, fix } = causeOf(name);
      const rig = await startRig(it, rollout);
      await plant(rig);
      const explanation = await rig.explain(rig.deployment_id);
      assert.deepEqual(unmet(explanation), [name], JSON.stringify(explanation.conditions));
      const condition = explanation.conditions.find((one) => one.name === name);
      assert.ok(explanation.summary.startsWith(condition?.message ?? "?"));
      assert.equal(explanation.state, condition?.change === null || condition?.until !== null ? "waiting" : "blocked");
      if (fix === undefined) return;
      await fix(rig);
      assert.deepEqual(unmet(await rig.explain(rig.deployment_id)), []);
    });
});

test("two causes at the same time are both named", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const pairs = NAMES.flatMap((a, i) => NAMES.slice(i + 1).map((b) => [a, b] as const)).filter(([a, b]) => !exclude(a, b));
  assert.ok(pairs.length > 150, `${pairs.length} pairs`);
  for (const [a, b] of pairs) {
    const rig = await startRig(it, { ...causeOf(a).rollout, ...causeOf(b).rollout });
    await causeOf(a).plant(rig);
    await causeOf(b).plant(rig);
    assert.deepEqual(unmet(await rig.explain(rig.deployment_id)).toSorted(), [a, b].toSorted(), `${a} and ${b}`);
  }
});

test("an explanation names no deployment that the caller may not see", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane } = it;
  const rig = await startRig(it, {});
  const elsewhere = await seedRobot(plane, rig.org_id);
  await rig.run(sql`update robot set fleet_id = ${elsewhere.fleet_id} where org_id = ${rig.org_id} and id = ${rig.robot_id}`);
  const scopes = [{ fleet_id: elsewhere.fleet_id }];
  const { secret } = await createCredential(plane.db, plane, { kind: "org", org_id: rig.org_id, role: "viewer", label: "limited", scopes });
  const { body } = await it.call<{ data: Explanation }>("GET", `/api/robots/${rig.robot_id}/explain`, { token: secret });
  assert.deepEqual([body.data.state, body.data.deployment_id], ["no_deployment", null]);
  assert.equal((await rig.explain()).deployment_id, rig.deployment_id, "an admin of the org sees it");
});

test("an explanation states that there is no deployment, and returns 404 for an unknown one", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { org_id, token } = await it.org();
  const { robot_id } = await seedRobot(it.plane, org_id);
  const { body } = await it.call<{ data: Explanation }>("GET", `/api/robots/${robot_id}/explain`, { token });
  assert.deepEqual([body.data.state, body.data.deployment_id, body.data.conditions], ["no_deployment", null, []]);
  const ask = (query: string, asked_by: string | undefined = token, id = robot_id) =>
    it.call("GET", `/api/robots/${id}/explain${query}`, { token: asked_by });
  assert.equal((await ask("?deployment_id=dep_01arz3ndektsv4rrffq69g5fav")).status, 404);
  assert.equal((await it.call("GET", `/api/robots/${robot_id}/explain`)).status, 401);
  const of_another = await startRig(it, {});
  assert.equal((await ask("", of_another.token)).status, 404, "a robot of another org");
  assert.equal((await ask(`?deployment_id=${of_another.deployment_id}`)).status, 404, "a deployment of another org");
  const extra = await ask("?since=1h");
  assert.equal(extra.status, 400);
  assert.match(extra.body.error.message, /since/);
});
