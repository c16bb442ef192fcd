import type { Db } from "../../../kernel/db.ts";
import { bigint, bool, int, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf } from "../../../kernel/sql.ts";

/** Takes the next generation of each robot's desired state; locks those rows until the transaction ends. */
export const bumpGenerations = (db: Db, org_id: string, robot_ids: readonly string[], now: Date) =>
  db.many(sql(row({ robot_id: text, generation: bigint }))`
    insert into robot_desired (org_id, robot_id, generation, updated_at)
    select ${org_id}, r.id, 1, ${now} from unnest(${list(robot_ids.toSorted())}::text[]) as r (id)
    on conflict (org_id, robot_id) do update set generation = robot_desired.generation + 1, updated_at = excluded.updated_at
    returning robot_id, generation`);

/** Locks those rows in the order in which they are always locked: before anything else about what a robot has or is to have. */
export const lockGenerations = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.run(
    sql`select from robot_desired where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) order by robot_id for update`,
  );

/** A robot that has seen a higher generation than we know (the database is a restored copy) would take ours for old. */
export const raiseGeneration = (db: Db, org_id: string, robot_id: string, seen: number, now: Date) =>
  db.run(sql`
    insert into robot_desired (org_id, robot_id, generation, updated_at) values (${org_id}, ${robot_id}, ${seen + 1}, ${now})
    on conflict (org_id, robot_id) do update set generation = excluded.generation, updated_at = excluded.updated_at
      where robot_desired.generation < ${seen}`);

export const setObserved = (db: Db, org_id: string, robot_id: string, generation: number) =>
  db.run(
    sql`update robot_desired set observed_generation = greatest(observed_generation, ${generation}) where org_id = ${org_id} and robot_id = ${robot_id}`,
  );

const positionRow = row({ outbox_id: text, outbox_seq: bigint });
export const getPosition = (db: Db, org_id: string, robot_id: string) =>
  db.maybe(sql(positionRow)`select ${positionRow} from robot_desired where org_id = ${org_id} and robot_id = ${robot_id}`);

/** Moves the position of taken reports forward; 0 rows: this report was taken before. */
export const takePosition = (db: Db, org_id: string, robot_id: string, outbox_id: string, seq: number, now: Date) =>
  db.run(sql`
    insert into robot_desired (org_id, robot_id, outbox_id, outbox_seq, updated_at) values (${org_id}, ${robot_id}, ${outbox_id}, ${seq}, ${now})
    on conflict (org_id, robot_id) do update set outbox_id = excluded.outbox_id, outbox_seq = excluded.outbox_seq, updated_at = excluded.updated_at
      where robot_desired.outbox_id <> excluded.outbox_id or robot_desired.outbox_seq < excluded.outbox_seq`);

const appStateRow = row({
  robot_id: text,
  app: text,
  current_release_id: nullable(text),
  previous_release_id: nullable(text),
  desired_release_id: nullable(text),
  target_id: nullable(text),
  last_target_id: text,
});
export type AppState = RowOf<typeof appStateRow>;

export const listAppStates = (db: Db, org_id: string, robot_ids: readonly string[], app: string) =>
  db.many(
    sql(
      appStateRow,
    )`select ${appStateRow} from robot_app where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) and app = ${app}`,
  );

export interface DesiredAppChange {
  robot_id: string;
  release_id: string;
  target_id: string;
  deployment_id: string;
  attempt: number;
  verify_seconds: number;
}

/** From now on these robots are to run this release, on behalf of these targets. */
export const setDesiredApps = (db: Db, org_id: string, app: string, changes: readonly DesiredAppChange[], now: Date) =>
  db.run(sql`
    insert into robot_app (org_id, robot_id, app, desired_release_id, target_id, deployment_id, attempt, verify_seconds, last_target_id, updated_at)
    select ${org_id}, c.robot_id, ${app}, c.release_id, c.target_id, c.deployment_id, c.attempt, c.verify_seconds, c.target_id, ${now}
    from jsonb_to_recordset(${json(changes)}::jsonb) as c (robot_id text, release_id text, target_id text, deployment_id text, attempt int, verify_seconds int)
    order by c.robot_id
    on conflict (org_id, robot_id, app) do update set desired_release_id = excluded.desired_release_id, target_id = excluded.target_id, deployment_id = excluded.deployment_id,
      attempt = excluded.attempt, verify_seconds = excluded.verify_seconds, last_target_id = excluded.last_target_id, updated_at = excluded.updated_at`);

/**
 * The targets are over without their release: what runs is what is wanted again. Of those among `failed_ids` it is kept
 * that the release failed. Answers the robots for which that was so.
 */
export const revertDesiredApps = (db: Db, org_id: string, target_ids: readonly string[], failed_ids: readonly string[], now: Date) =>
  db.many(sql(row({ robot_id: text }))`
    update robot_app set failed_release_id = case when target_id = any(${list(failed_ids)}::text[]) then desired_release_id else failed_release_id end, desired_release_id = current_release_id, target_id = null, deployment_id = null, updated_at = ${now}
    where org_id = ${org_id} and target_id = any(${list(target_ids)}::text[])
    returning robot_id`);

/** The robot runs the target's release. When nothing newer is under way, it is also what is wanted. */
export const setAppApplied = (
  db: Db,
  org_id: string,
  a: { robot_id: string; app: string; release_id: string; target_id: string },
  now: Date,
) =>
  db.run(sql`
    update robot_app set
      previous_release_id = case when current_release_id is distinct from ${a.release_id} then current_release_id else previous_release_id end,
      current_release_id = ${a.release_id},
      desired_release_id = case when target_id is null or target_id = ${a.target_id} then ${a.release_id} else desired_release_id end,
      failed_release_id = null, deployment_id = case when target_id = ${a.target_id} then null else deployment_id end,
      target_id = case when target_id = ${a.target_id} then null else target_id end, updated_at = ${now}
    where org_id = ${org_id} and robot_id = ${a.robot_id} and app = ${a.app}`);

/** What the robot says that it runs. With no target under way, the robot's word is also what is wanted: it decides by itself. */
export const setAppReported = (
  db: Db,
  org_id: string,
  a: { robot_id: string; app: string; release_id: string | null; previous_release_id: string | null; status: string },
  now: Date,
) =>
  db.run(sql`
    insert into robot_app (org_id, robot_id, app, current_release_id, previous_release_id, desired_release_id, status, updated_at)
    values (${org_id}, ${a.robot_id}, ${a.app}, ${a.release_id}, ${a.previous_release_id}, ${a.release_id}, ${a.status}, ${now})
    on conflict (org_id, robot_id, app) do update set current_release_id = excluded.current_release_id, previous_release_id = excluded.previous_release_id, status = excluded.status,
      desired_release_id = case when robot_app.target_id is null then excluded.current_release_id else robot_app.desired_release_id end, updated_at = excluded.updated_at`);

const desiredAppRow = row({
  robot_id: text,
  app: text,
  target_id: nullable(text),
  deployment_id: nullable(text),
  attempt: int,
  verify_seconds: int,
  release_id: nullable(text),
  tag: nullable(text),
  kind: nullable(text),
  artifact_sha256: nullable(text),
  artifact_size: nullable(bigint),
  image: nullable(text),
  manifest: nullable(jsonb<unknown>()),
});
/** An app that nobody asked for and that the robot is not known to run is left out: the robot leaves it as it is. */
export const listDesiredApps = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(desiredAppRow)`
    -- reads: release
    select a.robot_id, a.app, a.target_id, a.deployment_id, a.attempt, a.verify_seconds, r.id as release_id, r.tag, r.kind, r.artifact_sha256, r.artifact_size, r.image, r.manifest
    from robot_app a left join release r on r.org_id = a.org_id and r.id = a.desired_release_id
    where a.org_id = ${org_id} and a.robot_id = any(${list(robot_ids)}::text[]) and (a.desired_release_id is not null or a.target_id is not null)`);

const desiredConfigRow = row({
  robot_id: text,
  namespace: text,
  version: int,
  sha256: text,
  target_id: nullable(text),
  deployment_id: nullable(text),
  attempt: int,
});
export const listDesiredConfigs = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(
    sql(
      desiredConfigRow,
    )`select ${desiredConfigRow} from robot_config where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`,
  );

export const listGenerations = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(
    sql(
      row({ robot_id: text, generation: bigint }),
    )`select robot_id, generation from robot_desired where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`,
  );

export const mayFetch = async (db: Db, org_id: string, robot_id: string, sha256: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads: release
    select r.id from robot_app a join release r on r.org_id = a.org_id and r.id in (a.desired_release_id, a.current_release_id)
    where a.org_id = ${org_id} and a.robot_id = ${robot_id} and r.artifact_sha256 = ${sha256} limit 1`)) !== undefined;

const contentRow = row({ content: text, sha256: text, version: int });
export const getConfigContent = (db: Db, org_id: string, robot_id: string, namespace: string) =>
  db.maybe(
    sql(
      contentRow,
    )`select ${contentRow} from robot_config where org_id = ${org_id} and robot_id = ${robot_id} and namespace = ${namespace}`,
  );

export interface ConfigFileChange {
  robot_id: string;
  namespace: string;
  content: string;
  sha256: string;
  target_id: string;
  deployment_id: string;
  attempt: number;
}

/** Freezes the files that these robots are to have, on behalf of these targets; the version grows with each. */
export const setDesiredConfigs = (db: Db, org_id: string, files: readonly ConfigFileChange[], now: Date) =>
  db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, target_id, deployment_id, attempt, last_target_id, updated_at)
    select ${org_id}, c.robot_id, c.namespace, 1, c.content, c.sha256, c.target_id, c.deployment_id, c.attempt, c.target_id, ${now}
    from jsonb_to_recordset(${json(files)}::jsonb) as c (robot_id text, namespace text, content text, sha256 text, target_id text, deployment_id text, attempt int)
    order by c.robot_id, c.namespace
    on conflict (org_id, robot_id, namespace) do update set version = robot_config.version + case when robot_config.target_id = excluded.target_id then 0 else 1 end, 
      previous_content = case when robot_config.target_id is null then robot_config.content else robot_config.previous_content end,
      previous_sha256 = case when robot_config.target_id is null then robot_config.sha256 else robot_config.previous_sha256 end,
      unchanged = robot_config.reported_sha256 is not distinct from excluded.sha256,
      content = excluded.content, sha256 = excluded.sha256, target_id = excluded.target_id, deployment_id = excluded.deployment_id, attempt = excluded.attempt, last_target_id = excluded.last_target_id, updated_at = excluded.updated_at`);

export const setConfigReported = (
  db: Db,
  org_id: string,
  c: { robot_id: string; namespace: string; version: number; sha256: string },
  now: Date,
) =>
  db.run(sql`
    update robot_config set reported_version = ${c.version}, reported_sha256 = ${c.sha256}, updated_at = ${now}
    where org_id = ${org_id} and robot_id = ${c.robot_id} and namespace = ${c.namespace}`);

const configStateRow = row({ namespace: text, state: textOf<"missing" | "there">(), unchanged: bool });
/** Whether the robot has reported each file that the target brought, and whether it had it before. */
export const listConfigStates = (db: Db, org_id: string, target_id: string) =>
  db.many(sql(configStateRow)`
    select namespace, case when reported_sha256 = sha256 then 'there' else 'missing' end as state, unchanged from robot_config
    where org_id = ${org_id} and target_id = ${target_id}`);

/** The newest config target that was dispatched to each robot for a namespace, or for any when it is ''. */
export const listLastConfigTargets = (db: Db, org_id: string, robot_ids: readonly string[], namespace: string) =>
  db.many(sql(row({ robot_id: text, last_target_id: text }))`
    select robot_id, max(last_target_id) as last_target_id from robot_config
    where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) ${namespace === "" ? sql`` : sql`and namespace = ${namespace}`}
    group by robot_id`);

/** The config targets ended with their files on the robots. */
export const releaseConfigs = (db: Db, org_id: string, target_ids: readonly string[]) =>
  db.run(sql`
    update robot_config set target_id = null, deployment_id = null, previous_content = null, previous_sha256 = null
    where org_id = ${org_id} and target_id = any(${list(target_ids)}::text[])`);

/** The config targets are over without effect: what the robots were to have before is wanted again. Answers the robots. */
export async function revertConfigs(db: Db, org_id: string, target_ids: readonly string[], now: Date): Promise<{ robot_id: string }[]> {
  const gone = await db.many(sql(row({ robot_id: text }))`
    delete from robot_config where org_id = ${org_id} and target_id = any(${list(target_ids)}::text[]) and previous_content is null
    returning robot_id`);
  const back = await db.many(sql(row({ robot_id: text }))`
    update robot_config set content = previous_content, sha256 = previous_sha256, version = version + 1, previous_content = null, previous_sha256 = null,
      target_id = null, deployment_id = null, updated_at = ${now}
    where org_id = ${org_id} and target_id = any(${list(target_ids)}::text[])
    returning robot_id`);
  return [...gone, ...back];
}

/** Namespaces that each robot has a file of. */
export const listConfigNamespaces = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ robot_id: text, namespace: text }))`
    select robot_id, namespace from robot_config where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`);

export const getConfigTarget = (db: Db, org_id: string, robot_id: string, namespace: string) =>
  db.maybe(sql(row({ target_id: nullable(text) }))`
    select target_id from robot_config where org_id = ${org_id} and robot_id = ${robot_id} and namespace = ${namespace}`);
