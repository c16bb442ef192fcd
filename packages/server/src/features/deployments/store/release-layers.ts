import type { Db } from "../../../kernel/db.ts";
import { bigint, int, jsonb, list, nullable, row, type RowOf, sql, text } from "../../../kernel/sql.ts";

const partRow = row({ artifact_sha256: text, platform: text, position: int, sha256: text, size: bigint, diff_id: nullable(text) });
export type PartRow = RowOf<typeof partRow>;

/** The parts of the images in these artifacts: first the config of each image, then its layers from the lowest. */
export const listImageParts = (db: Db, org_id: string, artifact_sha256s: readonly string[]) =>
  db.many(sql(partRow)`
    -- reads: artifact_layer
    select ${partRow} from artifact_layer where org_id = ${org_id} and artifact_sha256 = any(${list(artifact_sha256s)}::text[])
    order by artifact_sha256, platform, position`);

/** The platforms that the robots reported. */
export const listArchitectures = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ id: text, platform: nullable(jsonb<{ arch?: string }>()) }))`
    -- reads: robot
    select id, platform from robot where org_id = ${org_id} and id = any(${list(robot_ids)}::text[])`);

/** Artifacts of the images on the robots' disks: of the current and previous release of each app. */
export const listKeptImages = (db: Db, org_id: string, robot_ids: readonly string[]) =>
  db.many(sql(row({ robot_id: text, artifact_sha256: text }))`
    -- reads: release
    select distinct a.robot_id, r.artifact_sha256
    from robot_app a join release r on r.org_id = a.org_id and r.id in (a.current_release_id, a.previous_release_id)
    where a.org_id = ${org_id} and a.robot_id = any(${list(robot_ids)}::text[]) and r.kind = 'container_image' and r.artifact_state = 'stored'
    order by a.robot_id, r.artifact_sha256`);
