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
 * Found before any org is known: the secret says which it is. By the secret that a rotation put aside it is found too,
 * and ends when that does: at once, unless the rotation gave it time.
 */
export const findCredential = (db: Db, hash: Buffer): Promise<FoundCredential | undefined> =>
  db.maybe(sql(foundRow)`
    select id, hash, kind, org_id, user_id, role, scopes, label, prefix, revoked_at, every_org,
      case when hash = ${hash} then expires_at else least(expires_at, previous_until) end as expires_at
    from credential where hash = ${hash} or previous_hash = ${hash}`);

export const getCredential = (db: Db, id: string): Promise<CredentialRow> =>
  db.one(sql(credentialRow)`select ${credentialRow} from credential where id = ${id}`);

/** The one org of an org's token; its role and scopes are the credential's. */
export const listOrgOfToken = (db: Db, org_id: string): Promise<MembershipRow[]> =>
  // reads: org
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, null::text as role, null::jsonb as scopes, null::text as user_name
    from org o where o.id = ${org_id}`);

/** The user's grants, one a row, in one org or in every one, active or not. */
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

/** One statement for many tokens, locked in the order of their ids, so that two of these never wait for each other. Times never go back. */
export const updateLastUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    with v as (
      select v.id, v.at
      from (select * from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at) order by id) v
      cross join lateral (select last_used_at from credential where id = v.id for no key update) c
      where c.last_used_at is null or c.last_used_at < v.at)
    update credential c set last_used_at = v.at from v where c.id = v.id`);
