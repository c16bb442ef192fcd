import { hash } from "node:crypto";
import type { ReportBody } from "@roamfleet/protocol/link";
import type { Plane } from "../../../context.ts";
import type { Caller } from "../../../kernel/caller.ts";
import { jsonb, row, sql, text } from "../../../kernel/sql.ts";
import type { FeaturePlane } from "../../testing/feature-plane.ts";
import { seedRobot } from "../../testing/seed-robot.ts";
import { createConfigDeployment, createDeployment } from "../create/create.ts";
import { dispatchQueued } from "../dispatch/dispatch.ts";
import { Postponed } from "../reconciler.ts";
import type { RobotReport } from "../report/report.ts";

/** An org in which a release and a config were dispatched to all robots. */
export interface ReportRig {
  org_id: string;
  caller: Caller;
  robot_ids: string[];
  release_id: string;
  /** Ids of the release deployment and of the config deployment. */
  deployment_ids: [string, string];
  /** Builds a robot's report about one of the two deployments; both are given by index. */
  about(
    robot: number,
    deployment: number,
    said: Omit<Extract<ReportBody, { kind: "target" }>, "kind" | "deployment_id" | "target_id">,
  ): ReportBody;
  /** Builds a robot's report that it has the config file. */
  file(version?: number): ReportBody;
  report(robot: number, seq: number, body: ReportBody): RobotReport;
}

const CONFIG = "config.json";

export async function startReportRig(it: FeaturePlane, robots: number): Promise<ReportRig> {
  const { plane } = it;
  const { org_id, token } = await it.org();
  const caller = await plane.authenticators.portal(token, org_id);
  const first = await seedRobot(plane, org_id);
  const robot_ids = [first.robot_id];
  while (robot_ids.length < robots) robot_ids.push((await seedRobot(plane, org_id, first)).robot_id);
  const { db, clock } = plane;
  const now = clock.now();
  await db.run(sql`update robot set node_id = 'node_a', node_epoch = 1, kinds = '["file"]' where org_id = ${org_id}`);
  const release_id = plane.id("rel");
  await db.run(sql`
    insert into release (org_id, id, tag, kind, app, artifact_sha256, artifact_size, artifact_state, created_by, created_at, updated_at)
    values (${org_id}, ${release_id}, 'one', 'file', 'main', ${hash("sha256", "one")}, 3, 'stored', '{}', ${now}, ${now})`);
  await db.run(sql`
    insert into config_entry (org_id, id, namespace, key, scope, value, version, created_at, updated_at)
    values (${org_id}, ${plane.id("cfg")}, ${CONFIG}, 'speed', 'org', '1', 1, ${now}, ${now})`);
  const { fleet_id } = first;
  const release = await createDeployment(db.forOrg(org_id), plane, caller, { release: release_id, fleet_id });
  const config = await createConfigDeployment(db.forOrg(org_id), plane, caller, { fleet_id });
  while (await dispatchQueued(db, plane, new Postponed()));
  const deployment_ids: [string, string] = [release.row.id, config.id];
  const targets = await listTargets(plane, org_id);
  const [{ sha256 } = { sha256: "" }] = await db.many(
    sql(row({ sha256: text }))`select sha256 from robot_config where org_id = ${org_id} limit 1`,
  );
  return {
    org_id,
    caller,
    robot_ids,
    release_id,
    deployment_ids,
    about(robot, deployment, said) {
      const deployment_id = deployment_ids[deployment] ?? "dep_unknown";
      const target_id = targets.get(`${deployment_id} ${robot_ids[robot]}`) ?? "tgt_unknown";
      return { kind: "target", deployment_id, target_id, ...said };
    },
    file: (version = 1) => ({ kind: "config", namespace: CONFIG, version, sha256 }),
    report: (robot, seq, body) => ({ robot_id: robot_ids[robot] ?? "", outbox_id: "outbox", seq, body }),
  };
}

const targetRow = row({ id: text, deployment_id: text, robot_id: text });
async function listTargets({ db }: Plane, org_id: string): Promise<Map<string, string>> {
  const targets = await db.many(sql(targetRow)`select id, deployment_id, robot_id from deployment_target where org_id = ${org_id}`);
  return new Map(targets.map(({ id, deployment_id, robot_id }) => [`${deployment_id} ${robot_id}`, id]));
}

const saidRow = row({ rows: jsonb<unknown>() });
/**
 * Returns every row that reports write, as lines that two rigs can compare: ids are replaced by placeholders, and numbers that depend on
 * the order of the robots are left out.
 */
export async function rowsOf({ plane }: FeaturePlane, rig: ReportRig): Promise<string[]> {
  const { org_id } = rig;
  const { rows } = await plane.db.one(sql(saidRow)`
    select jsonb_build_object(
      'deployments', (select jsonb_agg(to_jsonb(d) - 'order_number' order by id) from deployment d where org_id = ${org_id}),
      'targets', (select jsonb_agg(to_jsonb(t) order by deployment_id, robot_id) from deployment_target t where org_id = ${org_id}),
      'events', (select jsonb_agg(to_jsonb(e) - 'id' - 'seq' - case when robot_id is null then 'actor' else '' end order by deployment_id, robot_id, seq) from deployment_event e where org_id = ${org_id}),
      'numbers', (select jsonb_agg(seq order by deployment_id, seq) from deployment_event where org_id = ${org_id}),
      'apps', (select jsonb_agg(to_jsonb(a) - 'last_order_number' order by robot_id, app) from robot_app a where org_id = ${org_id}),
      'configs', (select jsonb_agg(to_jsonb(c) order by robot_id, namespace) from robot_config c where org_id = ${org_id}),
      'positions', (select jsonb_agg(to_jsonb(p) order by robot_id) from robot_desired p where org_id = ${org_id}),
      'timeline', (select jsonb_agg(to_jsonb(e) - 'id' order by robot_id, id) from timeline_entry e where org_id = ${org_id})) as rows`);
  let said = JSON.stringify(rows, undefined, 1);
  const names = [org_id, rig.release_id, ...rig.deployment_ids, ...rig.robot_ids];
  names.forEach((id, index) => (said = said.replaceAll(id, `<${index}>`)));
  const targets = await listTargets(plane, org_id);
  for (const [whose, id] of targets)
    said = said.replaceAll(id, `<target of ${names.indexOf(whose.split(" ")[0] ?? "")} ${names.indexOf(whose.split(" ")[1] ?? "")}>`);
  // The remaining ids are of objects that reports do not change: fleets, tokens.
  return said.replaceAll(/\b([a-z]+)_[0-9a-hj-np-tv-z]{26}\b/g, "<$1>").split("\n");
}
