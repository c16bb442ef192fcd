import type { Role } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Limits } from "../../config.ts";
import type { Scopes } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { bool, bytea, equals, json, jsonb, list, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";

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
type CredentialRow = RowOf<typeof credentialRow>;

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
 * Finds a token by the hash of its secret when its org is not known yet. Also accepts the hash of the secret that the last rotation
 * replaced. In that case, `expires_at` is when the replaced secret becomes invalid: the end of the overlap (by default the time of the
 * rotation), or the token's expiry if that is earlier.
 */
export const findCredential = (db: Db, hash: Buffer): Promise<FoundCredential | undefined> =>
  db.maybe(sql(foundRow)`
    select id, hash, kind, org_id, user_id, role, scopes, label, prefix, revoked_at, every_org,
      case when hash = ${hash} then expires_at else least(expires_at, previous_until) end as expires_at
    from credential where hash = ${hash} or previous_hash = ${hash}`);

export const getCredential = (db: Db, id: string): Promise<CredentialRow> =>
  db.one(sql(credentialRow)`select ${credentialRow} from credential where id = ${id}`);

/** Returns the org of a token that belongs to an org. Role and scopes in the result are null, because the token itself has them. */
export const listOrgOfToken = (db: Db, org_id: string): Promise<MembershipRow[]> =>
  // reads tables of other features: org
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, null::text as role, null::jsonb as scopes, null::text as user_name
    from org o where o.id = ${org_id}`);

/** Returns one row for each grant of a user in one org, or in all orgs if `org_id` is null. Includes inactive orgs. */
export const listOrgsOfUser = (db: Db, user_id: string, org_id: string | null): Promise<MembershipRow[]> =>
  // reads tables of other features: membership, org, user_account
  db.many(sql(membershipRow)`
    select o.id as org_id, o.name, o.status = 'active' as active, m.role, m.scopes, coalesce(m.name, u.email) as user_name
    from membership m join org o on o.id = m.org_id join user_account u on u.id = m.user_id
    where m.user_id = ${user_id} and (${org_id}::text is null or m.org_id = ${org_id}) order by o.id, m.role`);

interface NewCredential extends Omit<FoundCredential, "revoked_at"> {
  created_by: Actor | null;
  at: Date;
}

export const insertCredential = (db: Db, c: NewCredential): Promise<number> =>
  db.run(sql`
    insert into credential (id, hash, kind, org_id, user_id, every_org, role, scopes, label, prefix, expires_at, created_by, created_at, updated_at)
    values (${c.id}, ${c.hash}, ${c.kind}, ${c.org_id}, ${c.user_id}, ${c.every_org}, ${c.role}, ${json(c.scopes)}, ${c.label}, ${c.prefix},
      ${c.expires_at}, ${json(c.created_by ?? undefined)}, ${c.at}, ${c.at})`);

/**
 * Updates the times at which tokens were last used, in one statement. The times never decrease. Locks rows in order of id to prevent
 * deadlocks.
 */
export const updateLastUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    with v as (
      select v.id, v.at
      from (select * from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at) order by id) v
      cross join lateral (select last_used_at from credential where id = v.id for no key update) c
      where c.last_used_at is null or c.last_used_at < v.at)
    update credential c set last_used_at = v.at from v where c.id = v.id`);

const tokenRow = row({
  id: text,
  kind: textOf<"org" | "user">(),
  label: nullable(text),
  role: textOf<Role>(),
  scopes: jsonb<Scopes>(),
  prefix: text,
  user_id: nullable(text),
  expires_at: nullable(timestamptz),
  last_used_at: nullable(timestamptz),
  revoked_at: nullable(timestamptz),
  created_by: nullable(jsonb<Actor>()),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type TokenRow = RowOf<typeof tokenRow>;

export type TokenStatus = "active" | "expired" | "revoked";
interface TokenFilter {
  status?: TokenStatus | undefined;
  user_id?: string | undefined;
}

/** Lists tokens. The status is derived as in `statusOf`: `revoked` takes precedence over `expired`. */
export const listTokens = (db: Db, org_id: string, filter: TokenFilter, now: Date, { after, limit }: Window): Promise<TokenRow[]> => {
  const { status, user_id } = filter;
  const of_status = sql`and ${status ?? null} = case when revoked_at is not null then 'revoked' when expires_at <= ${now} then 'expired' else 'active' end`;
  return db.many(sql(tokenRow)`
    select ${tokenRow} from credential
    where org_id = ${org_id} and id < ${after ?? MAX_ID} ${equals({ user_id })} ${status === undefined ? sql`` : of_status}
    order by id desc limit ${limit}`);
};

export const findToken = (db: Db, org_id: string, id: string): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`select ${tokenRow} from credential where org_id = ${org_id} and id = ${id}`);

/** Locks a token, so that no other transaction revokes or rotates it. */
export const lockToken = (db: Db, org_id: string, id: string): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`select ${tokenRow} from credential where org_id = ${org_id} and id = ${id} for update`);

/**
 * Revokes a token. A second call changes nothing. Waits for transactions that use the token's permissions, because they lock the token's
 * row.
 */
export const revokeToken = (db: Db, org_id: string, id: string, now: Date): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`
    with locked as (select id from credential where org_id = ${org_id} and id = ${id} for update)
    update credential set revoked_at = coalesce(revoked_at, ${now}), updated_at = case when revoked_at is null then ${now} else updated_at end
    where org_id = ${org_id} and id in (select id from locked) returning ${tokenRow}`);

/** Replaces the secret of a token. The replaced secret stays valid until `previous_until`. Any older secret becomes invalid. */
export const rotateToken = (
  db: Db,
  org_id: string,
  id: string,
  { hash, prefix, previous_until, at }: { hash: Buffer; prefix: string; previous_until: Date; at: Date },
): Promise<TokenRow> =>
  db.one(sql(tokenRow)`
    update credential set previous_hash = hash, previous_until = ${previous_until}, hash = ${hash}, prefix = ${prefix}, updated_at = ${at}
    where org_id = ${org_id} and id = ${id} returning ${tokenRow}`);

/**
 * Revokes the user's tokens that are valid for this org only. Keeps the user's tokens for all orgs, because these no longer include this
 * org.
 */
export const revokeTokensOfUser = (db: Db, org_id: string, user_id: string, now: Date): Promise<{ id: string }[]> =>
  db.many(sql(row({ id: text }))`
    update credential set revoked_at = ${now}, updated_at = ${now}
    where org_id = ${org_id} and user_id = ${user_id} and not every_org and revoked_at is null returning id`);

/** Revokes all tokens of the service, which also ends the browser sessions of these tokens. Returns how many tokens it revoked. */
export const revokeEveryToken = async (db: Db, now: Date): Promise<number> =>
  (
    await db.many(sql(row({ id: text }))`
      -- across orgs: a restored backup brings back the tokens of all of them
      update credential set revoked_at = ${now}, updated_at = ${now} where revoked_at is null returning id`)
  ).length;

const anyRow = row({ present: bool });

/** Whether the org itself (not one of its users) has a valid token with the role admin for the whole org. */
export const hasAdminToken = async (db: Db, org_id: string, now: Date): Promise<boolean> =>
  (
    await db.one(sql(anyRow)`
      select exists (
        select from credential
        where org_id = ${org_id} and kind = 'org' and role = 'admin' and scopes = '[]' and revoked_at is null
          and (expires_at is null or expires_at > ${now})) as present`)
  ).present;

const HOUR_MS = 3_600_000;
/** Maximum sessions of a token. When another session is created, the least recently used session is deleted. */
export const SESSIONS_OF_TOKEN_MAX = 500;

const sessionRow = row({
  id: text,
  token_id: text,
  token_hash: bytea,
  current_org_id: text,
  expires_at: timestamptz,
  used_at: timestamptz,
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type SessionRow = RowOf<typeof sessionRow>;

/** Returns the time limit for idle sessions. A session is idle if it was last used at or before this time. */
export const idleSince = (now: Date, { session_idle_hours }: Pick<Limits, "session_idle_hours">): Date =>
  new Date(now.getTime() - session_idle_hours * HOUR_MS);

/** Finds a session by the hash of its secret, when its org is not known yet. */
export const findSession = (db: Db, hash: Buffer): Promise<SessionRow | undefined> =>
  db.maybe(sql(sessionRow)`select ${sessionRow} from web_session where hash = ${hash}`);

export const getSession = (db: Db, id: string): Promise<SessionRow> =>
  db.one(sql(sessionRow)`select ${sessionRow} from web_session where id = ${id}`);

export const insertSession = (db: Db, s: Omit<SessionRow, "used_at" | "updated_at"> & { hash: Buffer }): Promise<SessionRow> =>
  db.one(sql(sessionRow)`
    insert into web_session (id, hash, token_id, token_hash, current_org_id, expires_at, used_at, created_at, updated_at)
    values (${s.id}, ${s.hash}, ${s.token_id}, ${s.token_hash}, ${s.current_org_id}, ${s.expires_at}, ${s.created_at}, ${s.created_at}, ${s.created_at})
    returning ${sessionRow}`);

/** Keeps the SESSIONS_OF_TOKEN_MAX most recently used sessions of a token and deletes the others. */
export const deleteSurplusSessions = (db: Db, token_id: string): Promise<number> =>
  db.run(sql`
    delete from web_session where token_id = ${token_id} and id in (
      select id from web_session where token_id = ${token_id} order by used_at desc, id desc offset ${SESSIONS_OF_TOKEN_MAX})`);

export const moveSession = (db: Db, id: string, org_id: string, now: Date): Promise<SessionRow> =>
  db.one(sql(sessionRow)`
    update web_session set current_org_id = ${org_id}, updated_at = ${now} where id = ${id} returning ${sessionRow}`);

export const deleteSession = (db: Db, id: string): Promise<number> => db.run(sql`delete from web_session where id = ${id}`);

/** Updates the times at which sessions were last used, in one statement. The times never decrease. */
export const updateSessionsUsed = (db: Db, used: ReadonlyMap<string, Date>): Promise<number> =>
  db.run(sql`
    with v as (
      select v.id, v.at
      from (select * from unnest(${list(used.keys())}::text[], ${list(used.values())}::timestamptz[]) as v (id, at) order by id) v
      cross join lateral (select used_at from web_session where id = v.id for no key update) s
      where s.used_at < v.at)
    update web_session s set used_at = v.at from v where s.id = v.id`);

/** Deletes up to `limit` sessions that ended before the times in `before`, or whose token ended before then, after skipping `offset`. */
export const deleteEndedSessions = (db: Db, before: { expired: Date; idle: Date }, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    delete from web_session where id = any(array(
      select s.id from web_session s join credential c on c.id = s.token_id
      where s.expires_at < ${before.expired} or s.used_at < ${before.idle} or c.revoked_at < ${before.expired} or c.expires_at < ${before.expired}
      order by s.id limit ${limit} offset ${offset}))`);
