import { AGENT_APP } from "@roamfleet/protocol";
import type { Db } from "../../../kernel/db.ts";
import {
  bigint,
  bool,
  int,
  json,
  jsonb,
  list,
  nullable,
  row,
  type RowOf,
  sql,
  type Statement,
  text,
  textOf,
  timestamptz,
} from "../../../kernel/sql.ts";
import { verifySecondsOf } from "../policy.ts";
import type { DeploymentRow, TargetRow } from "./rows.ts";

/** Identifies a target and its robot, to find the rows that the target wrote. */
export interface TargetOfRobot {
  id: string;
  robot_id: string;
}

/** `robot_id = … and target_id = …`: the rows of these robots that these targets wrote. */
const ofTargets = (targets: readonly TargetOfRobot[]): Statement<unknown> =>
  sql`robot_id = any(${list(targets.map((t) => t.robot_id))}::text[]) and target_id = any(${list(targets.map((t) => t.id))}::text[])`;

/** Increments the generation of each robot's desired state, and locks those rows until the transaction ends. */
export const bumpGenerations = (db: Db, org_id: string, robot_ids: readonly string[], now: Date) =>
  db.many(sql(row({ robot_id: text, generation: bigint }))`
    insert into robot_desired (org_id, robot_id, generation, updated_at)
    select ${org_id}, r.id, 1, ${now} from unnest(${list(robot_ids.toSorted())}::text[]) as r (id)
    on conflict (org_id, robot_id) do update set generation = robot_desired.generation + 1, updated_at = excluded.updated_at
    returning robot_id, generation`);

/** Locks the `robot_desired` rows. They are always locked before other rows of a robot's state. */
export const lockGenerations = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.run(
    sql`select from robot_desired where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) order by robot_id for update`,
  );

/** Raises the generation above `seen`, the last that the robot has seen: after a database restore, it would ignore a lower one. */
export const raiseGeneration = (db: Db, org_id: string, robot_id: string, seen: number, now: Date) =>
  db.run(sql`
    insert into robot_desired (org_id, robot_id, generation, updated_at) values (${org_id}, ${robot_id}, ${seen + 1}, ${now})
    on conflict (org_id, robot_id) do update set generation = excluded.generation, updated_at = excluded.updated_at
      where robot_desired.generation < ${seen}`);

/** Stores the generations that robots reported; each robot at most once. */
export const setObserved = (db: Db, org_id: string, observed: readonly { robot_id: string; generation: number }[]) =>
  db.run(sql`
    update robot_desired d set observed_generation = greatest(d.observed_generation, o.generation)
    from unnest(${list(observed.map((o) => o.robot_id))}::text[], ${list(observed.map((o) => o.generation))}::bigint[]) as o (robot_id, generation)
    where d.org_id = ${org_id} and d.robot_id = o.robot_id`);

/** Returns robots of this node that have not reported the current generation of their desired state: at most one row per link. */
export const listUnobserved = (db: Db, node: { id: string; epoch: number }) =>
  // reads tables of other features: robot
  db.many(sql(row({ org_id: text, robot_id: text, generation: bigint }))`
    -- across orgs: each node is responsible for its own robots
    select d.org_id, d.robot_id, d.generation from robot r join robot_desired d on d.org_id = r.org_id and d.robot_id = r.id
    where r.node_id = ${node.id} and r.node_epoch = ${node.epoch} and d.generation > d.observed_generation`);

const positionRow = row({ robot_id: text, outbox_id: text, outbox_seq: bigint });
export const listPositions = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(
    sql(positionRow)`select ${positionRow} from robot_desired where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`,
  );

/**
 * Advances the outbox positions of robots; each robot may appear once. Locks the rows in the order of robot ids. Returns the robots whose
 * report is new; the reports of all other robots were already stored.
 */
export const takePositions = (
  db: Db,
  org_id: string,
  positions: readonly { robot_id: string; outbox_id: string; seq: number }[],
  now: Date,
) =>
  db.many(sql(row({ robot_id: text }))`
    insert into robot_desired (org_id, robot_id, outbox_id, outbox_seq, updated_at)
    select ${org_id}, p.robot_id, p.outbox_id, p.seq, ${now}
    from unnest(${list(positions.map((p) => p.robot_id))}::text[], ${list(positions.map((p) => p.outbox_id))}::text[], ${list(positions.map((p) => p.seq))}::bigint[])
      as p (robot_id, outbox_id, seq)
    order by p.robot_id
    on conflict (org_id, robot_id) do update set outbox_id = excluded.outbox_id, outbox_seq = excluded.outbox_seq, updated_at = excluded.updated_at
      where robot_desired.outbox_id <> excluded.outbox_id or robot_desired.outbox_seq < excluded.outbox_seq
    returning robot_id`);

const appStateRow = row({
  robot_id: text,
  app: text,
  current_release_id: nullable(text),
  previous_release_id: nullable(text),
  desired_release_id: nullable(text),
  target_id: nullable(text),
  last_target_id: text,
  last_order_number: bigint,
  install_from: nullable(timestamptz),
  install_until: nullable(timestamptz),
});
export type AppState = RowOf<typeof appStateRow>;

/** Returns the state of one app on each of these robots, or of all their apps if `app` is null. */
export const listAppStates = (db: Db, org_id: string, robot_ids: readonly string[], app: string | null) =>
  db.many(sql(appStateRow)`
    select ${appStateRow} from robot_app where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])
    ${app === null ? sql`` : sql`and app = ${app}`}`);

export interface DesiredAppChange {
  robot_id: string;
  app: string;
  /** Id of the desired release; null to remove the app. */
  release_id: string | null;
  target_id: string;
  deployment_id: string;
  /** Order number of the deployment that requests this release. */
  order_number: number;
  attempt: number;
  verify_seconds: number;
  /** Time from which the robot may install the release. Absent or null: at any time. */
  install_from?: Date | null;
  install_until?: Date | null;
}

/** Builds the change of a target's app to the desired release `release_id`; null removes the app. Sets no install window. */
export const desiredBy = (
  { id, order_number, rollout }: Pick<DeploymentRow, "id" | "order_number" | "rollout">,
  target: TargetRow,
  { release_id, attempt }: { release_id: string | null; attempt: number },
): DesiredAppChange => ({
  robot_id: target.robot_id,
  app: target.subject,
  release_id,
  target_id: target.id,
  deployment_id: id,
  order_number,
  attempt,
  verify_seconds: verifySecondsOf(rollout),
});

export const settingDesiredApps = (org_id: string, changes: readonly DesiredAppChange[], now: Date) => sql`
    insert into robot_app (org_id, robot_id, app, desired_release_id, target_id, deployment_id, attempt, verify_seconds, install_from, install_until, last_target_id, last_order_number, updated_at)
    select ${org_id}, c.robot_id, c.app, c.release_id, c.target_id, c.deployment_id, c.attempt, c.verify_seconds, c.install_from, c.install_until, c.target_id, c.order_number, ${now}
    from jsonb_to_recordset(${json(changes)}::jsonb) as c (robot_id text, app text, release_id text, target_id text, deployment_id text, order_number bigint, attempt int, verify_seconds int, install_from timestamptz, install_until timestamptz)
    order by c.robot_id, c.app
    on conflict (org_id, robot_id, app) do update set install_from = excluded.install_from, install_until = excluded.install_until, desired_release_id = excluded.desired_release_id, target_id = excluded.target_id, deployment_id = excluded.deployment_id,
      attempt = excluded.attempt, verify_seconds = excluded.verify_seconds,
      last_target_id = case when excluded.last_order_number >= robot_app.last_order_number then excluded.last_target_id else robot_app.last_target_id end,
      last_order_number = greatest(robot_app.last_order_number, excluded.last_order_number), updated_at = excluded.updated_at`;

/** Sets the desired releases in `changes`, and records which target requested each. */
export const setDesiredApps = (db: Db, org_id: string, changes: readonly DesiredAppChange[], now: Date) =>
  db.run(settingDesiredApps(org_id, changes, now));

/** Sets the install window of these targets. Returns the robots for which it was set. */
export const setInstallWindow = (
  db: Db,
  org_id: string,
  targets: readonly TargetOfRobot[],
  window: { install_from: Date | null; install_until: Date | null },
  now: Date,
) =>
  db.many(sql(row({ robot_id: text }))`
    update robot_app set install_from = ${window.install_from}, install_until = ${window.install_until}, updated_at = ${now}
    where org_id = ${org_id} and ${ofTargets(targets)}
    returning robot_id`);

/**
 * Makes the current release the desired one again for targets that ended without success. For those in `failed_ids` it also records that
 * the release failed. Returns the robots that were changed.
 */
export const revertDesiredApps = (db: Db, org_id: string, targets: readonly TargetOfRobot[], failed_ids: readonly string[], now: Date) =>
  db.many(sql(row({ robot_id: text }))`
    update robot_app set failed_release_id = case when target_id = any(${list(failed_ids)}::text[]) then desired_release_id else failed_release_id end, desired_release_id = current_release_id, target_id = null, deployment_id = null, updated_at = ${now}
    where org_id = ${org_id} and ${ofTargets(targets)}
    returning robot_id`);

/** Records that the robots run their targets' release, and makes it the desired release of robots without a newer open target. */
export const setAppsApplied = (
  db: Db,
  org_id: string,
  app: string,
  applied: readonly { robot_id: string; release_id: string | null; target_id: string }[],
  now: Date,
) =>
  db.run(sql`
    update robot_app a set
      previous_release_id = case when a.current_release_id is distinct from t.release_id then a.current_release_id else a.previous_release_id end,
      current_release_id = t.release_id,
      desired_release_id = case when a.target_id is null or a.target_id = t.id then t.release_id else a.desired_release_id end,
      failed_release_id = null, deployment_id = case when a.target_id = t.id then null else a.deployment_id end,
      target_id = case when a.target_id = t.id then null else a.target_id end, updated_at = ${now}
    from unnest(${list(applied.map((t) => t.robot_id))}::text[], ${list(applied.map((t) => t.release_id))}::text[], ${list(applied.map((t) => t.target_id))}::text[])
      as t (robot_id, release_id, id)
    where a.org_id = ${org_id} and a.robot_id = t.robot_id and a.app = ${app}`);

const desiredAppRow = row({
  robot_id: text,
  app: text,
  target_id: nullable(text),
  deployment_id: nullable(text),
  attempt: int,
  verify_seconds: int,
  install_from: nullable(timestamptz),
  install_until: nullable(timestamptz),
  release_id: nullable(text),
  tag: nullable(text),
  kind: nullable(text),
  artifact_sha256: nullable(text),
  artifact_size: nullable(bigint),
  image: nullable(text),
  manifest: nullable(jsonb<unknown>()),
  signature: nullable(jsonb<unknown>()),
});
/** Returns apps with a desired release or a target. The agent needs a target, so that no old release replaces a newer package. */
export const listDesiredApps = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(desiredAppRow)`
    -- reads tables of other features: release
    select a.robot_id, a.app, a.target_id, a.deployment_id, a.attempt, a.verify_seconds, a.install_from, a.install_until, r.id as release_id, r.tag, r.kind, r.artifact_sha256, r.artifact_size, r.image, r.manifest, r.signature
    from robot_app a left join release r on r.org_id = a.org_id and r.id = a.desired_release_id
    where a.org_id = ${org_id} and a.robot_id = any(${list(robot_ids)}::text[]) and (a.target_id is not null or (a.desired_release_id is not null and a.app <> ${AGENT_APP}))`);

const desiredConfigRow = row({
  robot_id: text,
  namespace: text,
  version: int,
  sha256: text,
  target_id: nullable(text),
  deployment_id: nullable(text),
  attempt: int,
});

/** Returns the desired config files; those with secrets only for approved robots. */
export const listDesiredConfigs = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(
    sql(desiredConfigRow)`
      -- reads tables of other features: robot
      select ${desiredConfigRow.of("c")} from robot_config c join robot r on r.org_id = c.org_id and r.id = c.robot_id
      where c.org_id = ${org_id} and c.robot_id = any(${list(robot_ids)}::text[]) and (r.approval_requested_at is null or c.content not like 'sealed.%')`,
  );

export const listGenerations = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(
    sql(
      row({ robot_id: text, generation: bigint }),
    )`select robot_id, generation from robot_desired where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`,
  );

/** Whether these bytes are the artifact, or a part of the image, of a release that the robot runs or is to run. */
export const mayFetch = async (db: Db, org_id: string, robot_id: string, sha256: string): Promise<boolean> =>
  (await db.maybe(sql(row({ id: text }))`
    -- reads tables of other features: release, artifact_layer
    select r.id from robot_app a join release r on r.org_id = a.org_id and r.id in (a.desired_release_id, a.current_release_id)
    where a.org_id = ${org_id} and a.robot_id = ${robot_id} and (r.artifact_sha256 = ${sha256} or (r.kind = 'container_image' and exists (
      select from artifact_layer l where l.org_id = ${org_id} and l.artifact_sha256 = r.artifact_sha256 and l.sha256 = ${sha256}))) limit 1`)) !==
  undefined;

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

/** Maximum bytes of contents per statement. */
const FILES_BYTES_MAX = 4 * 1024 * 1024;

/** Stores the desired config files of these robots, on behalf of these targets. The version increases with each deployment. */
export async function setDesiredConfigs(db: Db, org_id: string, files: readonly ConfigFileChange[], now: Date): Promise<void> {
  for (const chunk of fileChunks(files, FILES_BYTES_MAX)) await insertFiles(db, org_id, chunk, now);
}

/** Splits files, in order, into chunks with at most `bytes_max` bytes of distinct contents. A larger content gets its own chunk. */
export function fileChunks<F extends Pick<ConfigFileChange, "content" | "sha256">>(files: readonly F[], bytes_max: number): F[][] {
  const chunks: F[][] = [];
  const contents = new Set<string>();
  let bytes = Infinity;
  for (const file of files) {
    if (!contents.has(file.sha256) || chunks.length === 0) {
      const more = Buffer.byteLength(file.content);
      if (bytes + more > bytes_max) {
        chunks.push([]);
        contents.clear();
        bytes = 0;
      }
      bytes += more;
      contents.add(file.sha256);
    }
    chunks.at(-1)?.push(file);
  }
  return chunks;
}

/** Inserts files; each distinct content is sent once, however many robots get it. */
function insertFiles(db: Db, org_id: string, files: readonly ConfigFileChange[], now: Date): Promise<number> {
  const contents = new Map(files.map(({ sha256, content }) => [sha256, content]));
  const changes = files.map(({ content: _, ...change }) => change);
  return db.run(sql`
    insert into robot_config (org_id, robot_id, namespace, version, content, sha256, target_id, deployment_id, attempt, last_target_id, updated_at)
    select ${org_id}, c.robot_id, c.namespace, 1, f.content, c.sha256, c.target_id, c.deployment_id, c.attempt, c.target_id, ${now}
    from jsonb_to_recordset(${json(changes)}::jsonb) as c (robot_id text, namespace text, sha256 text, target_id text, deployment_id text, attempt int)
    join unnest(${list(contents.keys())}::text[], ${list(contents.values())}::text[]) as f (sha256, content) on f.sha256 = c.sha256
    order by c.robot_id, c.namespace
    on conflict (org_id, robot_id, namespace) do update set version = robot_config.version + case when robot_config.target_id = excluded.target_id then 0 else 1 end, 
      previous_content = case when robot_config.target_id is null then robot_config.content else robot_config.previous_content end,
      previous_sha256 = case when robot_config.target_id is null then robot_config.sha256 else robot_config.previous_sha256 end,
      unchanged = robot_config.reported_sha256 is not distinct from excluded.sha256,
      content = excluded.content, sha256 = excluded.sha256, target_id = excluded.target_id, deployment_id = excluded.deployment_id, attempt = excluded.attempt, last_target_id = excluded.last_target_id, updated_at = excluded.updated_at`);
}

/** Stores the files that robots reported; each robot at most once. */
export const setConfigsReported = (
  db: Db,
  org_id: string,
  files: readonly { robot_id: string; namespace: string; version: number; sha256: string }[],
  now: Date,
) =>
  db.run(sql`
    update robot_config c set reported_version = f.version, reported_sha256 = f.sha256, updated_at = ${now}
    from unnest(${list(files.map((f) => f.robot_id))}::text[], ${list(files.map((f) => f.namespace))}::text[], ${list(files.map((f) => f.version))}::int[],
      ${list(files.map((f) => f.sha256))}::text[]) as f (robot_id, namespace, version, sha256)
    where c.org_id = ${org_id} and c.robot_id = f.robot_id and c.namespace = f.namespace`);

const configStateRow = row({ target_id: text, state: textOf<"missing" | "there">(), unchanged: bool });
/** Returns, for each file of these targets, whether the robot has reported it and whether the robot had it before. */
export const listConfigStates = (db: Db, org_id: string, targets: readonly TargetOfRobot[]) =>
  db.many(sql(configStateRow)`
    select target_id, case when reported_sha256 = sha256 then 'there' else 'missing' end as state, unchanged from robot_config
    where org_id = ${org_id} and ${ofTargets(targets)}`);

/**
 * Returns, for each robot, the highest order number of a dispatched config deployment that contained this namespace: one of only this
 * namespace, or one of all namespaces (stored as '').
 */
export const listConfigOrders = (db: Db, org_id: string, robot_ids: readonly string[], namespace: string) =>
  db.many(sql(row({ robot_id: text, last_order_number: bigint }))`
    select robot_id, max(last_order_number)::bigint as last_order_number from robot_config_order
    where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) and namespace in (${namespace}, '')
    group by robot_id`);

/** Returns, for each robot, the namespaces for which a deployment newer than this order number was dispatched. */
export const listNewerNamespaces = (db: Db, org_id: string, robot_ids: readonly string[], order_number: number) =>
  db.many(sql(row({ robot_id: text, namespace: text }))`
    select robot_id, namespace from robot_config_order
    where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[]) and namespace <> '' and last_order_number > ${order_number}`);

/** Records that a config deployment with this order number was dispatched to the robots. */
export const setConfigOrders = (db: Db, org_id: string, robot_ids: readonly string[], namespace: string, order_number: number) =>
  db.run(sql`
    insert into robot_config_order (org_id, robot_id, namespace, last_order_number)
    select ${org_id}, r.id, ${namespace}, ${order_number} from unnest(${list(robot_ids.toSorted())}::text[]) as r (id)
    on conflict (org_id, robot_id, namespace) do update set last_order_number = greatest(robot_config_order.last_order_number, excluded.last_order_number)`);

/** Records that these config targets ended `applied`, and deletes the previous files that would be restored after a failure. */
export const releaseConfigs = (db: Db, org_id: string, targets: readonly TargetOfRobot[]) =>
  db.run(sql`
    update robot_config set target_id = null, deployment_id = null, previous_content = null, previous_sha256 = null
    where org_id = ${org_id} and ${ofTargets(targets)}`);

/** Restores the previous desired files of config targets that ended without success. Returns the robots. */
export async function revertConfigs(db: Db, org_id: string, targets: readonly TargetOfRobot[], now: Date): Promise<{ robot_id: string }[]> {
  const gone = await db.many(sql(row({ robot_id: text }))`
    delete from robot_config where org_id = ${org_id} and ${ofTargets(targets)} and previous_content is null
    returning robot_id`);
  const back = await db.many(sql(row({ robot_id: text }))`
    update robot_config set content = previous_content, sha256 = previous_sha256, version = version + 1, previous_content = null, previous_sha256 = null,
      target_id = null, deployment_id = null, updated_at = ${now}
    where org_id = ${org_id} and ${ofTargets(targets)}
    returning robot_id`);
  return [...gone, ...back];
}

/** Returns the config namespaces in which each robot has a desired file. */
export const listConfigNamespaces = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ robot_id: text, namespace: text }))`
    select robot_id, namespace from robot_config where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])`);

/** Returns the open targets that deployed these files, with their deployments. */
export const listTargetsOfFiles = (db: Db, org_id: string, files: readonly { robot_id: string; namespace: string }[]) =>
  db.many(sql(row({ robot_id: text, target_id: text, deployment_id: text }))`
    select c.robot_id, c.target_id, c.deployment_id
    from unnest(${list(files.map((f) => f.robot_id))}::text[], ${list(files.map((f) => f.namespace))}::text[]) as f (robot_id, namespace)
    join robot_config c on c.org_id = ${org_id} and c.robot_id = f.robot_id and c.namespace = f.namespace
    where c.robot_id = any(${list(files.map((f) => f.robot_id))}::text[]) and c.target_id is not null and c.deployment_id is not null`);
