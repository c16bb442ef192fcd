import type { Db, SystemDb } from "../../kernel/db.ts";
import { bigint, bool, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";
import type { NodeRun } from "../../link/index.ts";

const uploadRow = row({ org_id: text, release_id: text, size: bigint, expires_at: timestamptz });
type UploadRow = RowOf<typeof uploadRow>;

export const findUpload = (db: Db, org_id: string, release_id: string): Promise<UploadRow | undefined> =>
  db.maybe(sql(uploadRow)`select ${uploadRow} from artifact_upload where org_id = ${org_id} and release_id = ${release_id}`);

/**
 * Inserts an upload. If the upload of the release exists already, for example because of a concurrent request, keeps its row and returns 0.
 */
export const insertUpload = (db: Db, { org_id, release_id, size, expires_at }: UploadRow, now: Date): Promise<number> =>
  db.run(sql`
    insert into artifact_upload (org_id, release_id, size, created_at, expires_at)
    values (${org_id}, ${release_id}, ${size}, ${now}, ${expires_at}) on conflict (org_id, release_id) do nothing`);

export const keepUpload = (db: Db, org_id: string, release_id: string, expires_at: Date): Promise<number> =>
  db.run(sql`update artifact_upload set expires_at = ${expires_at} where org_id = ${org_id} and release_id = ${release_id}`);

export const deleteUpload = (db: Db, org_id: string, release_id: string): Promise<number> =>
  db.run(sql`delete from artifact_upload where org_id = ${org_id} and release_id = ${release_id}`);

/** Deletes an upload that has expired. Returns 0 if received bytes have extended its expiry meanwhile. */
export const deleteExpiredUpload = (db: Db, { org_id, release_id }: UploadRow, now: Date): Promise<number> =>
  db.run(sql`delete from artifact_upload where org_id = ${org_id} and release_id = ${release_id} and expires_at <= ${now}`);

/** Returns the expired uploads of all orgs, in the order of org and release, after the cursor `after`. */
export const listExpiredUploads = (
  db: Db,
  now: Date,
  after: Pick<UploadRow, "org_id" | "release_id">,
  limit: number,
): Promise<UploadRow[]> =>
  db.many(sql(uploadRow)`
    -- across orgs: a sweep by time
    select ${uploadRow} from artifact_upload where expires_at <= ${now} and (org_id, release_id) > (${after.org_id}, ${after.release_id})
    order by org_id, release_id limit ${limit}`);

/** Advisory lock under which uploads are admitted, one at a time in the whole service. It is released when the admission is committed. */
const UPLOAD_ADMISSION_LOCK = 7_306_014_225n;
export const lockUploadAdmission = (tx: Db): Promise<number> => tx.run(sql`select pg_advisory_xact_lock(${UPLOAD_ADMISSION_LOCK}::bigint)`);

const takenRow = row({ stored: bigint, deleted: bigint, promised: bigint, uploads: bigint });
/**
 * Counts the bytes of an org's artifacts and of its announced uploads. Reads both in one statement, so that an upload that becomes an
 * artifact meanwhile counts exactly once.
 */
export const countTaken = (db: Db, org_id: string): Promise<RowOf<typeof takenRow>> =>
  db.one(sql(takenRow)`
    select (select coalesce(sum(size), 0)::bigint from artifact where org_id = ${org_id}) as stored,
      (select coalesce(sum(size), 0)::bigint from artifact where org_id = ${org_id} and unreferenced_at is not null) as deleted,
      (select coalesce(sum(size), 0)::bigint from artifact_upload where org_id = ${org_id}) as promised,
      (select count(*)::bigint from artifact_upload where org_id = ${org_id}) as uploads`);

const openRow = row({ org_id: text, release_id: text, size: bigint });
/** Returns the incomplete uploads of all orgs. */
export const listOpenUploads = (db: Db): Promise<RowOf<typeof openRow>[]> =>
  db.many(sql(openRow)`
    -- across orgs: they share one disk
    select ${openRow} from artifact_upload`);

const otherRow = row({ is_there: bool });
/** Whether the server has an active org other than this one. */
export const hasOtherOrgs = async (db: Db, org_id: string): Promise<boolean> =>
  // reads tables of other features: org
  (await db.one(sql(otherRow)`select exists (select from org where id <> ${org_id} and status = 'active') as is_there`)).is_there;

/** Identifies an upload among those of all orgs. */
export interface UploadName {
  org_id: string;
  release_id: string;
}

const leaseRow = row({ holder: nullable(text), holder_beat: bigint });
export type Lease = RowOf<typeof leaseRow>;

/**
 * Takes the lease of an upload. Returns 1 if the upload had no lease, its lease has not changed since `silent` was read, or the process of
 * its holder has ended; otherwise returns 0. A lease of this process is a leftover and is also taken: the caller has checked that this
 * process does not work on the upload.
 */
export const takeLease = (
  db: SystemDb,
  { org_id, release_id }: UploadName,
  self: NodeRun,
  holder: string,
  silent: Lease | undefined,
): Promise<number> =>
  // reads tables of other features: node
  db.run(sql`
    update artifact_upload u set holder = ${holder}, holder_node = ${self.id}, holder_epoch = ${self.epoch}, holder_beat = u.holder_beat + 1
    where u.org_id = ${org_id} and u.release_id = ${release_id} and (
      u.holder is null or (u.holder_node = ${self.id} and u.holder_epoch = ${self.epoch})
      or (u.holder = ${silent?.holder ?? null} and u.holder_beat = ${silent?.holder_beat ?? null})
      or not exists (select from node n where n.id = u.holder_node and n.epoch = u.holder_epoch and not n.is_over))`);

export const findLease = (db: SystemDb, { org_id, release_id }: UploadName): Promise<Lease | undefined> =>
  db.maybe(sql(leaseRow)`select ${leaseRow} from artifact_upload where org_id = ${org_id} and release_id = ${release_id}`);

/** Renews a lease. Returns 0 if another holder has taken the lease, or the upload no longer exists. */
export const renewLease = (db: SystemDb, { org_id, release_id }: UploadName, holder: string, expires_at: Date): Promise<number> =>
  db.run(sql`
    update artifact_upload set holder_beat = holder_beat + 1, expires_at = greatest(expires_at, ${expires_at})
    where org_id = ${org_id} and release_id = ${release_id} and holder = ${holder}`);

/**
 * Releases a lease. Does nothing if the row is locked: then another node is taking the lease, or the holder's transaction is deleting the
 * upload.
 */
export const releaseLease = (db: SystemDb, { org_id, release_id }: UploadName, holder: string): Promise<number> =>
  db.run(sql`
    with own as (
      select org_id, release_id from artifact_upload
      where org_id = ${org_id} and release_id = ${release_id} and holder = ${holder} for update skip locked)
    update artifact_upload u set holder = null, holder_node = null, holder_epoch = null
    from own where u.org_id = own.org_id and u.release_id = own.release_id`);
