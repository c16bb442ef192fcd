import type { Role } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { bool, bytea, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

export type Scopes = readonly { site_id?: string; fleet_id?: string }[];

const credentialRow = row({
  id: text,
  hash: bytea,
  kind: textOf<"org" | "user">(),
  org_id: text,
  user_id: nullable(text),
  role: textOf<Role>(),
  scopes: jsonb<Scopes>(),
  label: nullable(text),
  prefix: text,
  expires_at: nullable(timestamptz),
  revoked_at: nullable(timestamptz),
});
export type CredentialRow = RowOf<typeof credentialRow>;

const membershipRow = row({
  org_id: text,
  name: text,
  active: bool,
  role: nullable(textOf<Role>()),
  scopes: nullable(jsonb<Scopes>()),
  user_name: nullable(text),
});
export type MembershipRow = RowOf<typeof membershipRow>;

const foundRow = row({ ...credentialRow.columns, every_org: bool });
export type FoundCredential = RowOf<typeof foundRow>;

/**
 * Finds a token by its secret, before the org is known. Also finds it by the secret before a rotation; `expires_at` is then the end of
 * the overlap, which is the time of the rotation by default.
 */
export const findCredential = (db: Db, hash: Buffer): Promise<FoundCredential | undefined> =>
  db.maybe(sql(foundRow)`
    select id, hash, kind, org_id, user_id, role, scopes, label, prefix, revoked_at, every_org,
      case when hash = ${hash} then expires_at else least(expires_at, previous_until) end as expires_at
    from credential where hash = ${hash} or previous_hash = ${hash}`);

export const getCredential = (db: Db, id: string): Promise<CredentialRow> =>
  db.one(sql(credentialRow)`select ${credentialRow} from credential where id = ${id}`);

/** Returns the only org of an org's token. The role and scopes are those of the credential. */
export const listOrgOfToken = (db: Db, org_id: string): Promise<MembershipRow[]> =>
  // reads: org
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, null::text as role, null::jsonb as scopes, null::text as user_name
    from org o where o.id = ${org_id}`);

/** Returns the user's grants, one for each row, in one org or in all orgs, including inactive ones. */
export const listOrgsOfUser = (db: Db, user_id: string, org_id: string | null): Promise<MembershipRow[]> =>
  // reads: membership, org, user_account
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, m.role, m.scopes, coalesce(m.name, u.email) as user_name
    from membership m join org o on o.id = m.org_id join user_account u on u.id = m.user_id
    where m.user_id = ${user_id} and (${org_id}::text is null or m.org_id = ${org_id}) order by o.id, m.role`);

export interface NewCredential extends Omit<FoundCredential, "revoked_at"> {
  created_by: Actor | null;
  at: Date;
}

export const insertCredential = (db: Db, c: NewCredential): Promise<number> =>
  db.run(sql`
    insert into credential (id, hash, kind, org_id, user_id, every_org, role, scopes, label, prefix, expires_at, created_by, created_at, updated_at)
    values (${c.id}, ${c.hash}, ${c.kind}, ${c.org_id}, ${c.user_id}, ${c.every_org}, ${c.role}, ${json(c.scopes)}, ${c.label}, ${c.prefix},
      ${c.expires_at}, ${json(c.created_by ?? undefined)}, ${c.at}, ${c.at})`);

/** Updates the last use of many tokens in one statement. Rows are locked in order of id, so that concurrent calls do not deadlock. Times never decrease. */
export const updateLastUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    with v as (
      select v.id, v.at
      from (select * from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at) order by id) v
      cross join lateral (select last_used_at from credential where id = v.id for no key update) c
      where c.last_used_at is null or c.last_used_at < v.at)
    update credential c set last_used_at = v.at from v where c.id = v.id`);
