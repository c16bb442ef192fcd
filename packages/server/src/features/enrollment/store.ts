import type { Actor } from "@roamfleet/protocol/routes";
import type { Authority } from "../access/index.ts";
import { type Caller, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { MAX_ID, type Window } from "../../kernel/page.ts";
import {
  bool,
  equals,
  int,
  json,
  jsonb,
  list,
  nullable,
  row,
  type RowOf,
  sql,
  type Statement,
  text,
  timestamptz,
} from "../../kernel/sql.ts";

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

const ownerRow = row({ org_id: text, robot_id: text, name: text, decommissioned: bool });
/** The robot that has a public key. */
export type KeyOwner = RowOf<typeof ownerRow>;

const presentedRow = row({
  ...keyRow.columns,
  position: int,
  suspended: bool,
  owner_org_id: nullable(text),
  owner_id: nullable(text),
  owner_name: nullable(text),
  owner_decommissioned: bool,
});

/** What a robot sends to enroll: the hash of an enrollment key, and its own public key. */
export interface Presented {
  key_hash: Buffer;
  public_key: Buffer;
}

/** An enrollment key with which a robot enrolls. */
export interface PresentedKey {
  key: KeyRow;
  /** Whether the key's org is suspended. */
  suspended: boolean;
  /** The robot with this public key in any org, if it is enrolled already. */
  owner: KeyOwner | undefined;
}

/**
 * Searches all orgs for the enrollment keys that robots present, and for the owners of their public keys. Returns a result for each robot,
 * in order; undefined if its enrollment key does not exist. The arrays are subqueries, so that PostgreSQL does not see their lengths.
 * Otherwise it would plan the statement for each length, which costs more than running it.
 */
export async function findPresented(db: Db, robots: readonly Presented[]): Promise<(PresentedKey | undefined)[]> {
  // reads tables of other features: org, robot
  const found = await db.many(sql(presentedRow)`
    select ${keyRow.of("k")}, p.position::int, o.status = 'suspended' as suspended, r.org_id as owner_org_id, r.id as owner_id, r.name as owner_name,
      r.decommissioned_at is not null as owner_decommissioned
    from unnest((select ${list(robots.map(({ key_hash }) => key_hash))}::bytea[]), (select ${list(robots.map(({ public_key }) => public_key))}::bytea[]))
      with ordinality as p (hash, public_key, position)
    join enrollment_key k on k.hash = p.hash join org o on o.id = k.org_id left join robot_key rk on rk.public_key = p.public_key
    left join robot r on r.org_id = rk.org_id and r.id = rk.robot_id`);
  const by_position = new Map(found.map((one) => [one.position, presentedOf(one)]));
  return robots.map((_, i) => by_position.get(i + 1));
}

function presentedOf({
  suspended,
  owner_org_id,
  owner_id,
  owner_name,
  owner_decommissioned,
  ...key
}: RowOf<typeof presentedRow>): PresentedKey {
  const owner =
    owner_org_id === null || owner_id === null || owner_name === null
      ? undefined
      : { org_id: owner_org_id, robot_id: owner_id, name: owner_name, decommissioned: owner_decommissioned };
  return { key, suspended, owner };
}

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
 * Counts uses of a valid key: `wanted`, or as many as are left. Returns how many; 0 if the key is invalid or used up. Of two concurrent
 * requests for the last use, one succeeds.
 */
export async function takeUses(db: Db, org_id: string, id: string, wanted: number, now: Date): Promise<number> {
  const taken = await db.maybe(sql(row({ granted: int }))`
    with valid as (
      select case when max_uses = 0 then ${wanted}::int else least(${wanted}::int, max_uses - uses) end as granted from enrollment_key
      where org_id = ${org_id} and id = ${id} and (max_uses = 0 or uses < max_uses) and revoked_at is null
        and (expires_at is null or expires_at > ${now}) for update)
    update enrollment_key k set uses = k.uses + valid.granted, updated_at = ${now} from valid
    where k.org_id = ${org_id} and k.id = ${id} returning valid.granted`);
  return taken?.granted ?? 0;
}

/** Returns the robot with this public key, in any org. */
export const findOwner = (db: Db, public_key: Buffer): Promise<KeyOwner | undefined> =>
  // reads tables of other features: robot
  db.maybe(sql(ownerRow)`
    select k.org_id, k.robot_id, r.name, r.decommissioned_at is not null as decommissioned
    from robot_key k join robot r on r.org_id = k.org_id and r.id = k.robot_id where k.public_key = ${public_key}`);

/** Returns the statement that inserts the public keys of new robots. */
export const insertingKeys = (org_id: string, robots: readonly { id: string; public_key: Buffer }[], at: Date): Statement<unknown> => sql`
    insert into robot_key (public_key, org_id, robot_id, created_at)
    select public_key, ${org_id}, id, ${at}
    from unnest(${list(robots.map(({ public_key }) => public_key))}::bytea[], ${list(robots.map(({ id }) => id))}::text[]) as r (public_key, id)`;

/** Replaces the robot's public key; the previous one becomes invalid. */
export const replaceRobotKey = (db: Db, org_id: string, robot_id: string, public_key: Buffer, now: Date): Promise<number> =>
  db.run(sql`update robot_key set public_key = ${public_key}, created_at = ${now} where org_id = ${org_id} and robot_id = ${robot_id}`);
