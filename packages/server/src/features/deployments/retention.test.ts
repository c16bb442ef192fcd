import assert from "node:assert/strict";
import { test } from "node:test";
import { int, row, sql, text } from "../../kernel/sql.ts";
import { type FeaturePlane, startFeaturePlane } from "../testing/feature-plane.ts";
import { createCredential } from "../tokens/index.ts";
import { dropDeploymentEvents, dropDeployments } from "./retention.ts";
import { deploymentRoutes } from "./routes.ts";
import { startReportRig } from "./testing/report-rig.ts";

const TIMEOUT = { timeout: 120_000 };

const countRow = row({ events: int, targets: int, deployments: int });
const countRows = async ({ plane }: FeaturePlane, id: string) =>
  await plane.db.one(sql(countRow)`
    select (select count(*)::int from deployment_event where deployment_id = ${id}) as events,
      (select count(*)::int from deployment_target where deployment_id = ${id}) as targets,
      (select count(*)::int from deployment where id = ${id}) as deployments`);

/** Marks a deployment as applied, and as replaced by a newer one unless `is_newest`. */
async function finish({ plane, clock }: FeaturePlane, id: string, is_newest = false): Promise<void> {
  await plane.db.run(sql`update deployment_target set status = 'applied' where deployment_id = ${id}`);
  await plane.db.run(sql`update deployment set status = 'applied', finished_at = ${clock.now()} where id = ${id}`);
  const newest = sql`case when ${is_newest} then last_target_id else 'zzzz' end`;
  await plane.db.run(sql`update robot_app set target_id = null, deployment_id = null, last_target_id = ${newest}`);
  await plane.db.run(sql`update robot_config set target_id = null, deployment_id = null, last_target_id = ${newest}`);
}

test("deletes events of old ended deployments, but not of open and recent ones", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const { deployment_ids } = await startReportRig(it, 3);
  const [ended, open] = deployment_ids;
  await finish(it, ended);
  const before = await countRows(it, ended);
  assert.ok(before.events > 0);
  await dropDeploymentEvents(plane, new Date(clock.now().getTime() - 1));
  assert.deepEqual(await countRows(it, ended), before, "it ended too recently");
  await clock.advance({ hours: 24 });
  await dropDeploymentEvents(plane, clock.now());
  assert.deepEqual(await countRows(it, ended), { ...before, events: 0 });
  assert.ok((await countRows(it, open)).events > 0, "it is open");
});

test("deletes an ended deployment with its rows unless a robot, fleet or retry still needs it", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const { deployment_ids, org_id } = await startReportRig(it, 3);
  const [release, config] = deployment_ids;
  const drop = () => dropDeployments(plane, clock.now());
  const isThere = async (id: string) => (await countRows(it, id)).deployments === 1;
  await clock.advance({ hours: 24 });
  await drop();
  assert.ok(await isThere(release), "it is open");

  await finish(it, release, true);
  await clock.advance({ hours: 24 });
  await drop();
  assert.ok(await isThere(release), "the robots' newest targets are in it");

  await finish(it, release);
  await clock.advance({ hours: 24 });
  await plane.db.run(sql`update deployment set retry_of = ${release} where org_id = ${org_id} and id = ${config}`);
  await drop();
  assert.ok(await isThere(release), "an open deployment retries it");
  await plane.db.run(sql`update deployment set retry_of = null where org_id = ${org_id} and id = ${config}`);

  await plane.db.run(sql`update fleet set desired = jsonb_build_object('main', jsonb_build_object('deployment_id', ${release}::text))`);
  await drop();
  assert.ok(await isThere(release), "the fleet follows it");
  await plane.db.run(sql`update fleet set desired = '{}'`);

  await drop();
  assert.deepEqual(await countRows(it, release), { events: 0, targets: 0, deployments: 0 });
  assert.ok(await isThere(config));
});

test("keeps an Idempotency-Key exactly as long as the deployment that was created with it", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const { org_id, release_id, robot_ids } = await startReportRig(it, 1);
  const { secret: token } = await createCredential(plane.db, plane, { kind: "org", org_id, role: "admin", label: "admin" });
  const create = () =>
    it.call<{ data: { id: string } }>("POST", "/api/deployments", {
      token,
      body: { robot_id: robot_ids[0], release: release_id },
      headers: { "idempotency-key": "k" },
    });
  const first = await create();
  assert.equal(first.status, 201, JSON.stringify(first.body));
  await finish(it, first.body.data.id);
  await clock.advance({ hours: 24 * 300 });
  await dropDeployments(plane, new Date(clock.now().getTime() - 86_400_000 * 301));
  assert.equal((await create()).body.data.id, first.body.data.id, "the deployment exists, so its key does too");
  await dropDeployments(plane, clock.now());
  const again = await create();
  assert.equal(again.status, 201);
  assert.notEqual(again.body.data.id, first.body.data.id);
});

test("a deployment that cannot be deleted does not prevent the deletion of others", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const rigs = [await startReportRig(it, 1), await startReportRig(it, 1)];
  const ids = rigs.map(({ deployment_ids }) => deployment_ids[0]);
  for (const id of ids) await finish(it, id);
  await clock.advance({ hours: 24 });
  await plane.db.run(sql`create table keeper (org_id text, id text, foreign key (org_id, id) references deployment (org_id, id))`);
  await plane.db.run(sql`insert into keeper select org_id, id from deployment where id = ${ids[0] ?? ""}`);
  await dropDeployments(plane, clock.now());
  assert.deepEqual(await Promise.all(ids.map(async (id) => (await countRows(it, id ?? "")).deployments)), [1, 0]);
});

test("keeps a deployment that is retried while the retention run deletes others", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const first = (await startReportRig(it, 1)).deployment_ids[0];
  const { deployment_ids, org_id } = await startReportRig(it, 3);
  const [source, retry] = deployment_ids;
  for (const id of [first, source]) {
    await finish(it, id);
    await clock.advance({ hours: 1 });
  }
  const before = await countRows(it, source);
  // Both deployments are in the same page. When the first is deleted, the trigger adds a retry of the second.
  await plane.db.run(sql`create table retries (id text, retry_of text)`);
  await plane.db.run(sql`insert into retries select ${retry}::text, ${source}::text`);
  await plane.db.run(sql`
    create function begin_retry() returns trigger language plpgsql security definer as $$ begin
      update deployment d set retry_of = r.retry_of from retries r where d.id = r.id; return null; end $$`);
  await plane.db.run(sql`create trigger begin_retry after delete on deployment for each row execute function begin_retry()`);
  await dropDeployments(plane, clock.now());
  assert.equal((await countRows(it, first)).deployments, 0);
  assert.deepEqual(await countRows(it, source), before);
  await plane.db.run(sql`update deployment set retry_of = null where org_id = ${org_id} and id = ${retry}`);
  await dropDeployments(plane, clock.now());
  assert.deepEqual(await countRows(it, source), { events: 0, targets: 0, deployments: 0 });
});

test("deletes old records of automatic deployments whose release or config no fleet has any more", TIMEOUT, async () => {
  await using it = await startFeaturePlane([deploymentRoutes]);
  const { plane, clock } = it;
  const { org_id, robot_ids } = await startReportRig(it, 1);
  const attempt = (subject: string) =>
    plane.db.run(sql`
    insert into robot_follow (org_id, robot_id, subject, deployment_id, created_at) values (${org_id}, ${robot_ids[0] ?? ""}, ${subject}, 'dep_a', ${clock.now()})`);
  await plane.db.run(sql`update fleet set config_revision = 'cdep_kept', desired = '{"main": {"id": "rel_kept"}}'`);
  for (const subject of ["rel_kept", "cdep_kept", "rel_old", "cdep_old"]) await attempt(subject);
  await clock.advance({ hours: 24 });
  await attempt("rel_recent");
  await dropDeployments(plane, clock.now());
  const left = await plane.db.many(sql(row({ subject: text }))`select subject from robot_follow order by subject`);
  assert.deepEqual(
    left.map(({ subject }) => subject),
    ["cdep_kept", "rel_kept", "rel_recent"],
  );
});
