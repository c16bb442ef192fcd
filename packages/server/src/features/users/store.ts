import type { Role } from "@roamfleet/protocol";
import type { UserHolding } from "@roamfleet/protocol/routes";
import type { Grant } from "../../kernel/caller.ts";
import { MAX_ID, containing, type Window } from "../../kernel/page.ts";
import type { Db } from "../../kernel/db.ts";
import { bool, json, jsonb, list, nullable, row, type RowOf, sql, type Statement, text, textOf, timestamptz } from "../../kernel/sql.ts";

const userRow = row({
  id: text,
  email: text,
  name: text,
  grants: jsonb<Grant[]>(),
  last_seen_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type UserRow = RowOf<typeof userRow>;
const anyRow = row({ present: bool });
const idRow = row({ id: text });

/** Returns a query for the members of the org and their grants. It also returns when a token of each member was last used in this org. */
const membersOf = (org_id: string, which: Statement<unknown> = sql``) =>
  // reads tables of other features: credential
  sql`
    select u.id, u.email, coalesce(m.name, u.email) as name, m.grants, m.created_at, m.updated_at,
      (select max(c.last_used_at) from credential c where c.org_id = ${org_id} and c.user_id = u.id) as last_seen_at
    from user_account u join (
      select user_id, jsonb_agg(jsonb_build_object('role', role, 'scopes', scopes)) as grants, max(name) as name, min(created_at) as created_at,
        max(updated_at) as updated_at
      from membership where org_id = ${org_id} ${which} group by user_id) m on m.user_id = u.id`;

export const listUsers = (
  db: Db,
  org_id: string,
  filter: { q?: string | undefined; role?: Role | undefined },
  { after, limit }: Window,
): Promise<UserRow[]> => {
  const { q, role } = filter;
  const named =
    q === undefined
      ? sql``
      : sql`and (name ~ ${containing(q)} or exists (select from user_account a where a.id = user_id and a.email ~ ${containing(q)}))`;
  // Select the users of the page before reading their grants, because the org may have many more users.
  const page = sql`
    select distinct user_id from membership
    where org_id = ${org_id} and user_id < ${after ?? MAX_ID} ${role === undefined ? sql`` : sql`and role = ${role}`} ${named}
    order by user_id desc limit ${limit}`;
  return db.many(sql(userRow)`select ${userRow} from (${membersOf(org_id, sql`and user_id in (${page})`)}) as member order by id desc`);
};

export const findUser = (db: Db, org_id: string, id: string): Promise<UserRow | undefined> =>
  db.maybe(sql(userRow)`select ${userRow} from (${membersOf(org_id)}) as member where id = ${id}`);

/**
 * Locks the org until the transaction ends, so that its members are changed one at a time. Otherwise the last two admins could remove each
 * other concurrently.
 */
export const lockMembers = (db: Db, org_id: string): Promise<number> =>
  // reads tables of other features: org
  db.run(sql`select from org where id = ${org_id} for no key update`);

/**
 * Returns the id of the account with this email address. Creates the account if it does not exist. The names of a user are stored for each
 * org, not in the account.
 */
export const addAccount = async (db: Db, { id, email, at }: { id: string; email: string; at: Date }): Promise<string> => {
  await db.run(sql`
    insert into user_account (id, email, name, created_at, updated_at) values (${id}, ${email}, ${email}, ${at}, ${at})
    on conflict (email) do nothing`);
  return (await db.one(sql(idRow)`select id from user_account where email = ${email}`)).id;
};

/** Changes the name of a member in this org. */
export const renameMember = (db: Db, org_id: string, user_id: string, name: string, at: Date): Promise<number> =>
  db.run(sql`update membership set name = ${name}, updated_at = ${at} where org_id = ${org_id} and user_id = ${user_id}`);

/** Locks the user's grants. Transactions that use the user's permissions wait. */
export const lockGrants = (db: Db, org_id: string, user_id: string): Promise<number> =>
  db.run(sql`select from membership where org_id = ${org_id} and user_id = ${user_id} order by role for update`);

/** Adds a grant, or replaces the user's grant of the same role. */
export const setGrant = (db: Db, org_id: string, user_id: string, { role, scopes }: Grant, name: string, at: Date): Promise<number> =>
  db.run(sql`
    insert into membership (org_id, user_id, role, scopes, name, created_at, updated_at)
    values (${org_id}, ${user_id}, ${role}, ${json(scopes)}, ${name}, ${at}, ${at})
    on conflict (org_id, user_id, role) do update set scopes = excluded.scopes, updated_at = excluded.updated_at`);

/** Deletes every grant of the user except those of `roles`. */
export const dropGrantsExcept = (db: Db, org_id: string, user_id: string, roles: readonly Role[]): Promise<number> =>
  db.run(sql`delete from membership where org_id = ${org_id} and user_id = ${user_id} and role <> all(${list(roles)}::text[])`);

/** Whether any user is admin of the whole org. */
export const hasAdminUser = async (db: Db, org_id: string): Promise<boolean> =>
  (
    await db.one(
      sql(anyRow)`select exists (select from membership where org_id = ${org_id} and role = 'admin' and scopes = '[]') as present`,
    )
  ).present;

/** Maximum objects of each kind that are returned. If there are more, the newest are returned. */
const EACH_MAX = 100;

const holdingRow = row({
  kind: textOf<UserHolding["kind"]>(),
  id: text,
  label: nullable(text),
  status: text,
  outcome: textOf<UserHolding["outcome"]>(),
});

/**
 * Returns the objects that the removal of a user would affect: unfinished deployments with the user's permissions, and valid enrollment
 * keys and tokens.
 */
export const listHoldings = (db: Db, org_id: string, user_id: string, now: Date): Promise<UserHolding[]> =>
  db.many(sql(holdingRow)`
    -- reads tables of other features: deployment, release, enrollment_key, credential
    (select case d.kind when 'release' then 'deployment' else 'config_deployment' end as kind, d.id, coalesce(r.tag, d.namespace) as label, d.status, 'cancelled' as outcome
      from deployment d left join release r on r.org_id = d.org_id and r.id = d.release_id
      where d.org_id = ${org_id} and d.finished_at is null
        and coalesce(d.authority ->> 'user_id', case when d.authority is null and d.created_by ->> 'type' = 'user' then d.created_by ->> 'id' end) = ${user_id}
      order by d.id desc limit ${EACH_MAX})
    union all
    (select 'enrollment_key', k.id, k.label, 'active', 'revoked' from enrollment_key k
      where k.org_id = ${org_id} and k.created_by ->> 'type' = 'user' and k.created_by ->> 'id' = ${user_id} and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > ${now}) and (k.max_uses = 0 or k.uses < k.max_uses)
      order by k.id desc limit ${EACH_MAX})
    union all
    (select 'token', c.id, c.label, 'active', case when c.user_id is null or c.every_org then 'kept' else 'revoked' end from credential c
      where c.org_id = ${org_id} and c.revoked_at is null and (c.expires_at is null or c.expires_at > ${now})
        and (c.user_id = ${user_id}
          or (c.user_id is null and c.created_by ->> 'type' = 'user' and c.created_by ->> 'id' = ${user_id}))
      order by c.id desc limit ${EACH_MAX})`);
