import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { bigint, int, json, jsonb, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

type OrgStatus = "pending" | "active" | "suspended";

/** Settings that the org's admins can change. If a field is missing, the server's default applies. */
export interface OrgSettings {
  deployment_expires_days?: number;
}

const orgRow = row({
  id: text,
  name: text,
  email: nullable(text),
  status: textOf<OrgStatus>(),
  settings: jsonb<OrgSettings>(),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type OrgRow = RowOf<typeof orgRow>;

export const listOrgs = (db: Db, status: OrgStatus | undefined, { after, limit }: Window): Promise<OrgRow[]> =>
  db.many(sql(orgRow)`
    select ${orgRow} from org
    where (${status ?? null}::text is null or status = ${status ?? null}) and id < ${after ?? MAX_ID}
    order by id desc limit ${limit}`);

export const listActiveOrgs = (db: Db): Promise<{ id: string; name: string }[]> =>
  db.many(sql(row({ id: text, name: text }))`select id, name from org where status = 'active' order by id`);

export const findOrg = (db: Db, id: string): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`select ${orgRow} from org where id = ${id}`);

/** Inserts a pending org. */
export const insertOrg = (db: Db, org: { id: string; name: string; email: string | null; at: Date }): Promise<OrgRow> =>
  db.one(sql(orgRow)`
    insert into org (id, name, email, status, created_at, updated_at)
    values (${org.id}, ${org.name}, ${org.email}, 'pending', ${org.at}, ${org.at})
    returning ${orgRow}`);

const countRow = row({ count: int });

export const countPending = async (db: Db): Promise<number> =>
  (await db.one(sql(countRow)`select count(*)::int as count from org where status = 'pending'`)).count;

/** Approves a pending org. Returns undefined if the org is not pending, so only one of two concurrent approvals succeeds. */
export const approveOrg = (db: Db, id: string, now: Date): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`update org set status = 'active', updated_at = ${now} where id = ${id} and status = 'pending' returning ${orgRow}`);

/** Deletes a pending org. Returns undefined if the org is not pending. */
export const deletePendingOrg = (db: Db, id: string): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`delete from org where id = ${id} and status = 'pending' returning ${orgRow}`);

/** Deletes up to `limit` pending orgs that were requested before the time `before`, after skipping `offset`. */
export const deletePendingOrgsBefore = (db: Db, before: Date, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    with old as (select id from org where status = 'pending' and created_at < ${before} order by id limit ${limit} offset ${offset} for update skip locked)
    delete from org where id in (select id from old)`);

/** Sets the status to `to`. Returns undefined unless the status was `from` or `to`. */
export const switchOrg = (db: Db, id: string, from: OrgStatus, to: OrgStatus, now: Date): Promise<OrgRow | undefined> =>
  db.maybe(sql(orgRow)`
    update org set status = ${to}, updated_at = case when status = ${to} then updated_at else ${now} end
    where id = ${id} and status in (${from}, ${to}) returning ${orgRow}`);

export const lockOrg = (db: Db, id: string): Promise<OrgRow> =>
  db.one(sql(orgRow)`select ${orgRow} from org where id = ${id} for no key update`);

export const updateOrg = (db: Db, id: string, { name, settings }: { name: string; settings: OrgSettings }, now: Date): Promise<OrgRow> =>
  db.one(sql(orgRow)`
    update org set name = ${name}, settings = ${json(settings)}, updated_at = ${now} where id = ${id} returning ${orgRow}`);

const statsRow = row({
  orgs_pending: int,
  orgs_active: int,
  orgs_suspended: int,
  robots_total: int,
  robots_online: int,
  deployments_scheduled: int,
  deployments_running: int,
  database_bytes: bigint,
});

export const readStats = (db: Db): Promise<RowOf<typeof statsRow>> =>
  // reads tables of other features: robot, deployment
  db.one(sql(statsRow)`
    -- across orgs: statistics of the whole service
    select o.*, r.*, d.*, pg_database_size(current_database()) as database_bytes
    from (select count(*) filter (where status = 'pending')::int as orgs_pending, count(*) filter (where status = 'active')::int as orgs_active,
        count(*) filter (where status = 'suspended')::int as orgs_suspended from org) o,
      (select count(*)::int as robots_total, count(node_id)::int as robots_online from robot where decommissioned_at is null) r,
      (select count(*) filter (where status = 'scheduled')::int as deployments_scheduled,
        count(*) filter (where status <> 'scheduled')::int as deployments_running from deployment where finished_at is null) d`);
