import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReportBody } from "@roamfleet/protocol/link";
import { int, nullable, row, sql, text } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { endLateSteps } from "../cancel/end-targets.ts";
import { createConfigDeployment } from "../create/create.ts";
import { Postponed } from "../reconciler.ts";
import { takeReports } from "../report/report.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { dispatchQueued } from "./dispatch.ts";

const TIMEOUT = { timeout: 120_000 };
const NAMESPACE = "config.json";
const endRow = row({ status: text, reason: nullable(text), attempt: int });
const fileRow = row({ namespace: text, version: int, sha256: text });

/** One robot, to which a config of all namespaces was dispatched. */
async function dispatchedConfig() {
  const it = await startFeaturePlane([]);
  const rig = await startReportRig(it, 1);
  const { plane } = it;
  const { org_id, caller } = rig;
  const [robot_id = ""] = rig.robot_ids;
  const db = plane.db.forOrg(org_id);
  let seq = 0;
  return {
    it,
    rig,
    plane,
    robot_id,
    /** Deploys one namespace or all to the robot. Returns the deployment's id. */
    deploy: async (namespace?: string) => {
      const { id } = await createConfigDeployment(db, plane, caller, { robot_id, ...(namespace === undefined ? {} : { namespace }) });
      while (await dispatchQueued(plane.db, plane, new Postponed()));
      return id;
    },
    addNamespace: (namespace: string) =>
      plane.db.run(sql`
        insert into config_entry (org_id, id, namespace, key, scope, value, version, created_at, updated_at)
        values (${org_id}, ${plane.id("cfg")}, ${namespace}, 'speed', 'org', '1', 1, ${it.clock.now()}, ${it.clock.now()})`),
    /** Reports that the robot has the desired file of a namespace. */
    arrive: async (namespace: string) => {
      const file = await db.one(
        sql(fileRow)`select ${fileRow} from robot_config where org_id = ${org_id} and robot_id = ${robot_id} and namespace = ${namespace}`,
      );
      await takeReports(db, plane, org_id, [rig.report(0, (seq += 1), { kind: "config", ...file })]);
    },
    report: (body: ReportBody) => takeReports(db, plane, org_id, [rig.report(0, (seq += 1), body)]),
    end: (deployment_id: string) =>
      db.one(sql(endRow)`select ${endRow} from deployment_target where org_id = ${org_id} and deployment_id = ${deployment_id}`),
  };
}

test("a newer config of the only namespace supersedes an undelivered config of all namespaces", TIMEOUT, async () => {
  const { it, rig, deploy, arrive, end } = await dispatchedConfig();
  await using _ = it;
  const newer = await deploy(NAMESPACE);
  assert.deepEqual(await end(rig.deployment_ids[1]), { status: "cancelled", reason: "superseded", attempt: 1 });
  await arrive(NAMESPACE);
  assert.deepEqual(await end(newer), { status: "applied", reason: null, attempt: 1 });
});

test("a config of all namespaces is applied without the file that a newer config replaced", TIMEOUT, async () => {
  const { it, deploy, addNamespace, arrive, end } = await dispatchedConfig();
  await using _ = it;
  await addNamespace("second");
  const [before, after] = [await deploy(), await deploy()];
  assert.deepEqual(await end(before), { status: "cancelled", reason: "superseded", attempt: 1 });
  // The file of the second namespace arrives before the newer config is dispatched.
  await arrive("second");
  assert.equal((await end(after)).status, "dispatched");
  const newer = await deploy(NAMESPACE);
  assert.deepEqual(await end(after), { status: "applied", reason: null, attempt: 1 });
  await arrive(NAMESPACE);
  assert.deepEqual(await end(newer), { status: "applied", reason: null, attempt: 1 });
  // The file of the third namespace arrives after the newer config is dispatched.
  await addNamespace("third");
  const third = await deploy();
  await deploy(NAMESPACE);
  assert.equal((await end(third)).status, "dispatched");
  await arrive("third");
  assert.deepEqual(await end(third), { status: "applied", reason: null, attempt: 1 });
});

test(
  "a config target fails after three timeouts if its robot acknowledges the desired state but never reports the file",
  TIMEOUT,
  async () => {
    const { it, rig, plane, report, end } = await dispatchedConfig();
    await using _ = it;
    const [, deployment_id] = rig.deployment_ids;
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      await report({ kind: "observed", generation: 2 * attempt });
      await report(rig.about(0, 1, { status: "downloading", attempt }));
      assert.deepEqual(await end(deployment_id), { status: "downloading", reason: null, attempt });
      await it.clock.advance({ minutes: 10 });
      await endLateSteps(plane.db, plane);
      await it.clock.advance({ minutes: 1 });
      while (await dispatchQueued(plane.db, plane, new Postponed()));
    }
    assert.deepEqual(await end(deployment_id), { status: "failed", reason: "timeout", attempt: 3 });
  },
);
