import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { APPS_MAX } from "@roamfleet/protocol/link";
import { int, list, row, sql, text } from "../../../kernel/sql.ts";
import { startFeaturePlane } from "../../testing/feature-plane.ts";
import { createDeployment } from "../create/create.ts";
import { Postponed } from "../reconciler.ts";
import { getDeploymentRow, lockDeployments } from "../store/deployments.ts";
import { startReportRig } from "../testing/report-rig.ts";
import { HINT_PUSH } from "../transition.ts";
import { dispatchQueued } from "./dispatch.ts";

test("dispatch does not wait for locks on the robot's other deployments", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids, deployment_ids } = await startReportRig(it, 1);
  const { plane } = it;
  const org = plane.db.forOrg(org_id);
  await plane.db.run(sql`
    insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
    select org_id, 'rel_second', 'second', kind, 'second', artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at
    from release where org_id = ${org_id} and id = ${release_id}`);
  const { row } = await createDeployment(org, plane, caller, { release: "rel_second", robot_id: robot_ids[0] ?? "" });
  await org.transaction(async (tx) => {
    await lockDeployments(tx, org_id, deployment_ids);
    await dispatchQueued(plane.db, plane, new Postponed());
  });
  assert.equal((await getDeploymentRow(org, org_id, "release", row.id))?.status, "in_progress");
});

test("notifies a robot whose target fails because of the maximum number of apps", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane, clock } = it;
  const robot_id = robot_ids[0] ?? "";
  await plane.db.run(sql`
    insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
    select org_id, 'rel_second', 'second', kind, 'second', artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at
    from release where org_id = ${org_id} and id = ${release_id}`);
  const { row } = await createDeployment(plane.db.forOrg(org_id), plane, caller, { release: "rel_second", robot_id });
  await plane.db.run(sql`
    insert into robot_app (org_id, robot_id, app, updated_at)
    select ${org_id}, ${robot_id}, 'app-' || n, ${clock.now()} from generate_series(1, ${APPS_MAX}::int) n`);
  const notified: unknown[] = [];
  plane.bus.subscribe(HINT_PUSH, (message) => void notified.push(message));
  await dispatchQueued(plane.db, plane, new Postponed());
  assert.equal((await getDeploymentRow(plane.db, org_id, "release", row.id))?.status, "failed");
  // The dispatch incremented the generation of the robot's desired state.
  await until("the hint", () => Promise.resolve(notified.length > 0));
  assert.deepEqual(notified, [{ org_id, robot_ids: [robot_id] }]);
});

test("dispatches only the newest deployment to each robot even if a run claims only some targets", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  // A run divides the 500 targets that it claims between the deployments, so it claims only some targets of each deployment.
  const { org_id, caller, release_id } = await startReportRig(it, 300);
  const { plane, clock } = it;
  const org = plane.db.forOrg(org_id);
  const { fleet_id } = await plane.db.one(sql(row({ fleet_id: text }))`select fleet_id from robot where org_id = ${org_id} limit 1`);
  const deployment_ids: string[] = [];
  for (const tag of ["older", "newer"]) {
    await plane.db.run(sql`
      insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
      select org_id, ${`rel_${tag}`}, ${tag}, kind, 'second', artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at
      from release where org_id = ${org_id} and id = ${release_id}`);
    deployment_ids.push((await createDeployment(org, plane, caller, { release: `rel_${tag}`, fleet_id })).row.id);
  }
  // Postponed targets are claimed last, so a run claims targets of different robots from the older and the newer deployment.
  await plane.db.run(sql`
      update deployment_target set not_before_at = ${clock.now()} where deployment_id = ${deployment_ids[0] ?? ""} and id in (
        select id from deployment_target where deployment_id = ${deployment_ids[0] ?? ""} order by id limit 100)`);
  while (await dispatchQueued(plane.db, plane, new Postponed()));
  const ended = await plane.db.many(
    sql(row({ status: text, attempt: int, targets: int }))`
        select status, attempt, count(*)::int as targets from deployment_target
        where org_id = ${org_id} and deployment_id = any(${list(deployment_ids)}::text[]) group by status, attempt order by status, attempt`,
  );
  assert.deepEqual(ended, [
    { status: "cancelled", attempt: 0, targets: 300 },
    { status: "dispatched", attempt: 1, targets: 300 },
  ]);
});

test("dispatches an older deployment if the newest one to the robot cannot be dispatched", { timeout: 120_000 }, async () => {
  await using it = await startFeaturePlane([]);
  const { org_id, caller, release_id, robot_ids } = await startReportRig(it, 1);
  const { plane } = it;
  const org = plane.db.forOrg(org_id);
  const deployment_ids: string[] = [];
  for (const tag of ["older", "newer"]) {
    await plane.db.run(sql`
      insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
      select org_id, ${`rel_${tag}`}, ${tag}, kind, 'second', artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at
      from release where org_id = ${org_id} and id = ${release_id}`);
    deployment_ids.push((await createDeployment(org, plane, caller, { release: `rel_${tag}`, robot_id: robot_ids[0] ?? "" })).row.id);
  }
  await plane.db.run(sql`
    create function test_fault() returns trigger language plpgsql as $$ begin
      if new.release_id = 'rel_newer' then raise exception 'planned: this target cannot be written'; end if;
      return new; end $$`);
  await plane.db.run(sql`create trigger test_fault before update on deployment_target for each row execute function test_fault()`);
  await dispatchQueued(plane.db, plane, new Postponed());
  const rows = await Promise.all(deployment_ids.map((id) => getDeploymentRow(org, org_id, "release", id)));
  assert.deepEqual(
    rows.map((one) => one?.status),
    ["in_progress", "queued"],
  );
});
