import type { Role } from "@robofleet/protocol";
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

/** Found before any org is known: the secret says which it is. */
export const findCredential = (db: Db, hash: Buffer): Promise<CredentialRow | undefined> =>
  db.maybe(sql(credentialRow)`select ${credentialRow} from credential where hash = ${hash}`);

export const getCredential = (db: Db, id: string): Promise<CredentialRow> =>
  db.one(sql(credentialRow)`select ${credentialRow} from credential where id = ${id}`);

/** The one org of an org's token; its role and scopes are the credential's. */
export const listOrgOfToken = (db: Db, org_id: string): Promise<MembershipRow[]> =>
  // reads: org
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, null::text as role, null::jsonb as scopes, null::text as user_name
    from org o where o.id = ${org_id}`);

/** Every org that the user is a member of, active or not. */
export const listOrgsOfUser = (db: Db, user_id: string): Promise<MembershipRow[]> =>
  // reads: membership, org, user_account
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, m.role, m.scopes, u.name as user_name
    from membership m join org o on o.id = m.org_id join user_account u on u.id = m.user_id
    where m.user_id = ${user_id} order by o.id`);

export interface NewCredential extends Omit<CredentialRow, "revoked_at"> {
  created_by: string | null;
  at: Date;
}

export const insertCredential = (db: Db, c: NewCredential): Promise<number> =>
  db.run(sql`
    insert into credential (id, hash, kind, org_id, user_id, role, scopes, label, prefix, expires_at, created_by, created_at, updated_at)
    values (${c.id}, ${c.hash}, ${c.kind}, ${c.org_id}, ${c.user_id}, ${c.role}, ${json(c.scopes)}, ${c.label}, ${c.prefix}, ${c.expires_at},
      ${c.created_by}, ${c.at}, ${c.at})`);

/** One statement for many tokens; times never go back. */
export const updateLastUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    update credential c set last_used_at = v.at
    from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at)
    where c.id = v.id and (c.last_used_at is null or c.last_used_at < v.at)`);
