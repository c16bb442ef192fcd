import type { Role } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { BEHIND_ALL_IDS, type Window } from "../../kernel/page.ts";
import { bool, jsonb, nullable, row, type RowOf, sql, text, textOf, timestamptz } from "../../kernel/sql.ts";
import type { Scopes } from "./store.ts";

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

const NOTHING = sql``;

export type TokenStatus = "active" | "expired" | "revoked";
export interface TokenFilter {
  status?: TokenStatus | undefined;
  user_id?: string | undefined;
}

/** Lists tokens. The status is derived as in wire.ts: `revoked` takes precedence over `expired`. */
export const listTokens = (db: Db, org_id: string, filter: TokenFilter, now: Date, { after, limit }: Window): Promise<TokenRow[]> => {
  const { status, user_id } = filter;
  const of_status = sql`and ${status ?? null} = case when revoked_at is not null then 'revoked' when expires_at <= ${now} then 'expired' else 'active' end`;
  return db.many(sql(tokenRow)`
    select ${tokenRow} from credential
    where org_id = ${org_id} and id < ${after ?? BEHIND_ALL_IDS} ${user_id === undefined ? NOTHING : sql`and user_id = ${user_id}`}
      ${status === undefined ? NOTHING : of_status}
    order by id desc limit ${limit}`);
};

export const findToken = (db: Db, org_id: string, id: string): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`select ${tokenRow} from credential where org_id = ${org_id} and id = ${id}`);

/** Locks a token against revocation and rotation. */
export const lockToken = (db: Db, org_id: string, id: string): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`select ${tokenRow} from credential where org_id = ${org_id} and id = ${id} for update`);

/** Revokes a token; idempotent. Waits for transactions that act on the token's authority, which lock its row. */
export const revokeToken = (db: Db, org_id: string, id: string, now: Date): Promise<TokenRow | undefined> =>
  db.maybe(sql(tokenRow)`
    with locked as (select id from credential where org_id = ${org_id} and id = ${id} for update)
    update credential set revoked_at = coalesce(revoked_at, ${now}), updated_at = case when revoked_at is null then ${now} else updated_at end
    where org_id = ${org_id} and id in (select id from locked) returning ${tokenRow}`);

/** Replaces the secret. The previous one stays valid until `previous_until`; an older one ends. */
export const rotateToken = (
  db: Db,
  org_id: string,
  id: string,
  { hash, prefix, previous_until, at }: { hash: Buffer; prefix: string; previous_until: Date; at: Date },
): Promise<TokenRow> =>
  db.one(sql(tokenRow)`
    update credential set previous_hash = hash, previous_until = ${previous_until}, hash = ${hash}, prefix = ${prefix}, updated_at = ${at}
    where org_id = ${org_id} and id = ${id} returning ${tokenRow}`);

/** Revokes the user's tokens for this org only. A token for every org of the user is kept, as it no longer includes this one. */
export const revokeTokensOfUser = (db: Db, org_id: string, user_id: string, now: Date): Promise<{ id: string }[]> =>
  db.many(sql(row({ id: text }))`
    update credential set revoked_at = ${now}, updated_at = ${now}
    where org_id = ${org_id} and user_id = ${user_id} and not every_org and revoked_at is null returning id`);

/** Revokes all tokens of the service, and with them their cookie sessions. Returns how many there were. */
export const revokeEveryToken = async (db: Db, now: Date): Promise<number> =>
  (
    await db.many(sql(row({ id: text }))`
      -- across orgs: a restored backup brings back the tokens of all of them
      update credential set revoked_at = ${now}, updated_at = ${now} where revoked_at is null returning id`)
  ).length;

const anyRow = row({ present: bool });

/** Whether the org has a valid token (not of a user) with the role admin for the whole org. */
export const hasAdminToken = async (db: Db, org_id: string, now: Date): Promise<boolean> =>
  (
    await db.one(sql(anyRow)`
      select exists (
        select from credential
        where org_id = ${org_id} and kind = 'org' and role = 'admin' and scopes = '[]' and revoked_at is null
          and (expires_at is null or expires_at > ${now})) as present`)
  ).present;
