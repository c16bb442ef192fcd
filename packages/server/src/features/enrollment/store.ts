import type { Actor } from "@roamfleet/protocol/routes";
import type { Authority } from "../access/index.ts";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import { bool, equals, int, json, jsonb, nullable, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";

const keyRow = row({
  org_id: text,
  id: text,
  label: nullable(text),
  site_id: text,
  fleet_id: text,
  robot_id: nullable(text),
  trusted: bool,
  max_uses: int,
  uses: int,
  expires_at: nullable(timestamptz),
  revoked_at: nullable(timestamptz),
  created_by: nullable(jsonb<Actor>()),
  authority: nullable(jsonb<Authority>()),
  created_at: timestamptz,
  updated_at: timestamptz,
});
export type KeyRow = RowOf<typeof keyRow>;

export type KeyStatus = "active" | "expired" | "exhausted" | "revoked";
/** Returns why the key cannot be used, or `active`. A revocation takes precedence over expiry and use. */
export function statusOf(
  { revoked_at, expires_at, max_uses, uses }: Pick<KeyRow, "revoked_at" | "expires_at" | "max_uses" | "uses">,
  now: Date,
): KeyStatus {
  if (revoked_at !== null) return "revoked";
  if (expires_at !== null && expires_at <= now) return "expired";
  return max_uses > 0 && uses >= max_uses ? "exhausted" : "active";
}
interface KeyFilter {
  status?: KeyStatus | undefined;
  site_id?: string | undefined;
  fleet_id?: string | undefined;
}

/** Lists keys, newest first. The status is derived as in `statusOf`. */
export const listKeys = (db: Db, caller: Caller, filter: KeyFilter, now: Date, { after, limit }: Window): Promise<KeyRow[]> => {
  const { status, site_id, fleet_id } = filter;
  const of_status = sql`and ${status ?? null} = case
    when revoked_at is not null then 'revoked' when expires_at <= ${now} then 'expired'
    when max_uses > 0 and uses >= max_uses then 'exhausted' else 'active' end`;
  return db.many(sql(keyRow)`
    select ${keyRow} from enrollment_key
    where org_id = ${caller.org_id} and id < ${after ?? MAX_ID} ${visible(caller, "site_id", "fleet_id")}
      ${equals({ site_id, fleet_id })} ${status === undefined ? sql`` : of_status}
    order by id desc limit ${limit}`);
};

export const findKey = (db: Db, org_id: string, id: string): Promise<KeyRow | undefined> =>
  db.maybe(sql(keyRow)`select ${keyRow} from enrollment_key where org_id = ${org_id} and id = ${id}`);

const foundRow = row({ org_id: text, id: text });

/** Finds a key by its hash while its org is not known yet. Returns only ids. */
export const findKeyByHash = (db: Db, hash: Buffer): Promise<RowOf<typeof foundRow> | undefined> =>
  db.maybe(sql(foundRow)`select org_id, id from enrollment_key where hash = ${hash}`);

export interface NewKey extends Omit<KeyRow, "uses" | "revoked_at" | "created_at" | "updated_at"> {
  hash: Buffer;
  at: Date;
}

export const insertKey = (db: Db, k: NewKey): Promise<KeyRow> =>
  db.one(sql(keyRow)`
    insert into enrollment_key (org_id, id, hash, label, site_id, fleet_id, robot_id, trusted, max_uses, expires_at, created_by, authority, created_at, updated_at)
    values (${k.org_id}, ${k.id}, ${k.hash}, ${k.label}, ${k.site_id}, ${k.fleet_id}, ${k.robot_id}, ${k.trusted}, ${k.max_uses}, ${k.expires_at}, ${json(k.created_by ?? undefined)}, ${json(k.authority ?? undefined)}, ${k.at}, ${k.at})
    returning ${keyRow}`);

/** Revokes a key; a second call changes nothing. */
export const revokeKey = (db: Db, org_id: string, id: string, now: Date): Promise<KeyRow | undefined> =>
  db.maybe(sql(keyRow)`
    update enrollment_key set revoked_at = coalesce(revoked_at, ${now}), updated_at = case when revoked_at is null then ${now} else updated_at end
    where org_id = ${org_id} and id = ${id} returning ${keyRow}`);

const revokedRow = row({ id: text, fleet_id: text });
/** Revokes the keys that a user or token created. Returns those that were not revoked before. */
export const revokeKeysOf = (db: Db, org_id: string, maker: { user_id: string } | { token_id: string }, now: Date) =>
  db.many(sql(revokedRow)`
    with locked as (
      select id from enrollment_key where org_id = ${org_id} and revoked_at is null and ${madeBy(maker)} order by id for update)
    update enrollment_key set revoked_at = ${now}, updated_at = ${now}
    where org_id = ${org_id} and id in (select id from locked) returning id, fleet_id`);

/** Revokes all enrollment keys of the service. Returns how many there were. */
export const revokeEveryKey = async (db: Db, now: Date): Promise<number> =>
  (
    await db.many(sql(row({ id: text }))`
      -- across orgs: a restored backup contains the keys of all of them
      update enrollment_key set revoked_at = ${now}, updated_at = ${now} where revoked_at is null returning id`)
  ).length;

const madeBy = (maker: { user_id: string } | { token_id: string }) =>
  "user_id" in maker
    ? sql`created_by ->> 'type' = 'user' and created_by ->> 'id' = ${maker.user_id}`
    : sql`(authority ->> 'token_id' = ${maker.token_id} or (authority is null and created_by ->> 'type' = 'org_token' and created_by ->> 'id' = ${maker.token_id}))`;

/** Revokes the unused keys with which a new computer could enroll as this robot, because a newer key replaces them. */
export const revokeReplacements = (db: Db, org_id: string, robot_id: string, now: Date): Promise<{ id: string }[]> =>
  db.many(sql(row({ id: text }))`
    update enrollment_key set revoked_at = ${now}, updated_at = ${now}
    where org_id = ${org_id} and robot_id = ${robot_id} and revoked_at is null and uses = 0
    returning id`);

/**
 * Counts one use of a valid key. Returns undefined if the key is invalid or used up. Of two concurrent requests for the last use, one
 * succeeds.
 */
export const takeUse = (db: Db, org_id: string, id: string, now: Date): Promise<KeyRow | undefined> =>
  db.maybe(sql(keyRow)`
    update enrollment_key set uses = uses + 1, updated_at = ${now}
    where org_id = ${org_id} and id = ${id} and (max_uses = 0 or uses < max_uses) and revoked_at is null and (expires_at is null or expires_at > ${now})
    returning ${keyRow}`);

const suspendedRow = row({ suspended: bool });
export const isSuspended = async (db: Db, org_id: string): Promise<boolean> =>
  // reads tables of other features: org
  (await db.one(sql(suspendedRow)`select status = 'suspended' as suspended from org where id = ${org_id}`)).suspended;

const ownerRow = row({ org_id: text, robot_id: text, name: text, decommissioned: bool });
type KeyOwner = RowOf<typeof ownerRow>;

/** Returns the robot with this public key, in any org. */
export const findOwner = (db: Db, public_key: Buffer): Promise<KeyOwner | undefined> =>
  // reads tables of other features: robot
  db.maybe(sql(ownerRow)`
    select k.org_id, k.robot_id, r.name, r.decommissioned_at is not null as decommissioned
    from robot_key k join robot r on r.org_id = k.org_id and r.id = k.robot_id where k.public_key = ${public_key}`);

export const insertRobotKey = (db: Db, org_id: string, robot_id: string, public_key: Buffer, now: Date): Promise<number> =>
  db.run(sql`insert into robot_key (public_key, org_id, robot_id, created_at) values (${public_key}, ${org_id}, ${robot_id}, ${now})`);

/** Replaces the robot's public key; the previous one becomes invalid. */
export const replaceRobotKey = (db: Db, org_id: string, robot_id: string, public_key: Buffer, now: Date): Promise<number> =>
  db.run(sql`update robot_key set public_key = ${public_key}, created_at = ${now} where org_id = ${org_id} and robot_id = ${robot_id}`);
