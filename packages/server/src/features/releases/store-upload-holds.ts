import type { SystemDb } from "../../kernel/db.ts";
import { bigint, nullable, row, type RowOf, sql, text } from "../../kernel/sql.ts";
import type { NodeRun } from "../../link/index.ts";

/** An upload, across orgs: its lease is taken before the org's data is read. */
export interface UploadName {
  org_id: string;
  release_id: string;
}

const holdRow = row({ holder: nullable(text), holder_beat: bigint });
export type Hold = RowOf<typeof holdRow>;

/**
 * Takes the lease of an upload. Returns 1 if the upload was free, its holder is `silent` and unchanged, or the holder's process has ended.
 * A lease of this process also counts as free: the process knows its own work, so the row is a leftover.
 */
export const takeHold = (
  db: SystemDb,
  { org_id, release_id }: UploadName,
  self: NodeRun,
  holder: string,
  silent: Hold | undefined,
): Promise<number> =>
  // reads: node
  db.run(sql`
    update artifact_upload u set holder = ${holder}, holder_node = ${self.id}, holder_epoch = ${self.epoch}, holder_beat = u.holder_beat + 1
    where u.org_id = ${org_id} and u.release_id = ${release_id} and (
      u.holder is null or (u.holder_node = ${self.id} and u.holder_epoch = ${self.epoch})
      or (u.holder = ${silent?.holder ?? null} and u.holder_beat = ${silent?.holder_beat ?? null})
      or not exists (select from node n where n.id = u.holder_node and n.epoch = u.holder_epoch and not n.is_over))`);

export const findHold = (db: SystemDb, { org_id, release_id }: UploadName): Promise<Hold | undefined> =>
  db.maybe(sql(holdRow)`select ${holdRow} from artifact_upload where org_id = ${org_id} and release_id = ${release_id}`);

/** Renews a lease. Returns 0 if another holder has taken it, or the upload no longer exists. */
export const renewHold = (db: SystemDb, { org_id, release_id }: UploadName, holder: string, expires_at: Date): Promise<number> =>
  db.run(sql`
    update artifact_upload set holder_beat = holder_beat + 1, expires_at = greatest(expires_at, ${expires_at})
    where org_id = ${org_id} and release_id = ${release_id} and holder = ${holder}`);

/** Releases a lease. Skips a locked row: it is being taken, or deleted by the holder's own transaction. */
export const giveUpHold = (db: SystemDb, { org_id, release_id }: UploadName, holder: string): Promise<number> =>
  db.run(sql`
    with held as (
      select org_id, release_id from artifact_upload
      where org_id = ${org_id} and release_id = ${release_id} and holder = ${holder} for update skip locked)
    update artifact_upload u set holder = null, holder_node = null, holder_epoch = null
    from held where u.org_id = held.org_id and u.release_id = held.release_id`);
