import type { Db } from "../../../kernel/db.ts";
import { bigint, bool, int, jsonb, list, nullable, row, type RowOf, sql, text } from "../../../kernel/sql.ts";
import { APPS_MAX } from "@roamfleet/protocol/link";
import type { DeploymentRow } from "./rows.ts";
import { isSelected } from "./selection.ts";

/** Whether the robot is approved, and so receives secrets. */
export const isApproved = async (db: Db, org_id: string, robot_id: string): Promise<boolean> =>
  (await listUnapproved(db, org_id, [robot_id])).length === 0;

/** Returns those of the robots that are not approved, and so receive no secrets. */
export const listUnapproved = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ id: text }))`
    -- reads tables of other features: robot
    select id from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[]) and approval_requested_at is not null`);

const plannedRobotRow = row({
  id: text,
  name: text,
  online: bool,
  labels: jsonb<Record<string, string>>(),
  kinds: jsonb<string[]>(),
  arch: nullable(text),
  current_release_id: nullable(text),
});
export type PlannedRobot = RowOf<typeof plannedRobotRow>;

type Planned = Pick<DeploymentRow, "robot_id" | "fleet_id" | "target_selector"> & { app: string; arch: string | null };

/**
 * Selects the robots that a deployment to this target would include now, ordered by id, with the facts that a plan shows. Of a fleet or
 * selection, only those of architecture `arch`, unless it is null.
 */
export const listPlannedRobots = (
  db: Db,
  org_id: string,
  { robot_id, fleet_id, target_selector, app, arch }: Planned,
  after: string,
  limit: number,
) =>
  db.many(sql(plannedRobotRow)`
    -- reads tables of other features: robot
    select r.id, r.name, r.node_id is not null as online, r.labels, r.kinds, r.platform ->> 'arch' as arch, a.current_release_id
    from robot r left join robot_app a on a.org_id = r.org_id and a.robot_id = r.id and a.app = ${app}
    where r.org_id = ${org_id}
      ${
        robot_id === null
          ? sql`${isSelected(target_selector ?? { fleet_id: fleet_id ?? "" })} and (${arch}::text is null or r.platform ->> 'arch' = ${arch})`
          : sql`and r.id = ${robot_id}`
      }
      and r.decommissioned_at is null and r.id > ${after}
    order by r.id limit ${limit}`);

const partRow = row({ artifact_sha256: text, platform: text, position: int, sha256: text, size: bigint, diff_id: nullable(text) });
export type PartRow = RowOf<typeof partRow>;

/** The parts of the images in these artifacts: first the config of each image, then its layers from the lowest. */
export const listImageParts = (db: Db, org_id: string, artifact_sha256s: readonly string[]) =>
  db.many(sql(partRow)`
    -- reads tables of other features: artifact_layer
    select ${partRow} from artifact_layer where org_id = ${org_id} and artifact_sha256 = any(${list(artifact_sha256s)}::text[])
    order by artifact_sha256, platform, position`);

/** The platforms that the robots reported. */
export const listArchitectures = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ id: text, platform: nullable(jsonb<{ arch?: string }>()) }))`
    -- reads tables of other features: robot
    select id, platform from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[])`);

/** Artifacts of the images on the robots' disks: of the current and previous release of each app. */
export const listKeptImages = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ robot_id: text, artifact_sha256: text }))`
    -- reads tables of other features: release
    select distinct a.robot_id, r.artifact_sha256
    from robot_app a join release r on r.org_id = a.org_id and r.id in (a.current_release_id, a.previous_release_id)
    where a.org_id = ${org_id} and a.robot_id = any(${list(robot_ids)}::text[]) and r.kind = 'container_image' and r.artifact_state = 'stored'
    order by a.robot_id, r.artifact_sha256`);

/**
 * Stores which releases the robots report to run, each robot at most once. If an app has no open target, its reported release also becomes
 * the desired one, because the robot decides locally what it runs. An app that is new to the server is ignored if the robot already has
 * APPS_MAX apps.
 */
export const setAppsReported = (
  db: Db,
  org_id: string,
  apps: readonly { robot_id: string; app: string; release_id: string | null; previous_release_id: string | null; status: string }[],
  now: Date,
) =>
  db.run(sql`
    insert into robot_app (org_id, robot_id, app, current_release_id, previous_release_id, desired_release_id, status, updated_at)
    select ${org_id}, a.robot_id, a.app, a.release_id, a.previous_release_id, a.release_id, a.status, ${now}
    from unnest(${list(apps.map((a) => a.robot_id))}::text[], ${list(apps.map((a) => a.app))}::text[], ${list(apps.map((a) => a.release_id))}::text[],
      ${list(apps.map((a) => a.previous_release_id))}::text[], ${list(apps.map((a) => a.status))}::text[]) as a (robot_id, app, release_id, previous_release_id, status)
    where exists (select from robot_app known where known.org_id = ${org_id} and known.robot_id = a.robot_id and known.app = a.app)
      or (select count(*) from robot_app known where known.org_id = ${org_id} and known.robot_id = a.robot_id) < ${APPS_MAX}
    order by a.robot_id
    on conflict (org_id, robot_id, app) do update set current_release_id = excluded.current_release_id, previous_release_id = excluded.previous_release_id, status = excluded.status,
      desired_release_id = case when robot_app.target_id is null then excluded.current_release_id else robot_app.desired_release_id end, updated_at = excluded.updated_at`);

/**
 * Returns those of these robots that have APPS_MAX apps. The caller has locked the robots' generations, so that no app is added meanwhile.
 */
export const listFullRobots = async (db: Db, org_id: string, robot_ids: readonly string[]): Promise<Set<string>> =>
  new Set(
    (
      await db.many(sql(row({ robot_id: text }))`
        select robot_id from robot_app where org_id = ${org_id} and robot_id = any(${list(robot_ids)}::text[])
        group by robot_id having count(*) >= ${APPS_MAX}`)
    ).map(({ robot_id }) => robot_id),
  );

/** Returns how many apps a robot has besides `app`. */
export const countOtherApps = async (db: Db, org_id: string, robot_id: string, app: string): Promise<number> =>
  (
    await db.one(sql(row({ apps: int }))`
      select count(*)::int as apps from robot_app where org_id = ${org_id} and robot_id = ${robot_id} and app <> ${app}`)
  ).apps;
