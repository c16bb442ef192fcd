import type { Platform } from "@roamfleet/protocol/link";
import type { Db, SystemDb } from "../../kernel/db.ts";
import {
  bool,
  bytea,
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

export const robotRow = row({
  id: text,
  name: text,
  site_id: text,
  fleet_id: text,
  labels: jsonb<Record<string, string>>(),
  public_key: bytea,
  agent_version: nullable(text),
  platform: nullable(jsonb<Platform>()),
  node_id: nullable(text),
  last_seen_at: nullable(timestamptz),
  held_at: nullable(timestamptz),
  approval_requested_at: nullable(timestamptz),
  decommissioned_at: nullable(timestamptz),
  created_at: timestamptz,
  updated_at: timestamptz,
});

export type RobotStatus = "online" | "offline" | "never_connected" | "decommissioned";

const placeRow = row({ id: text, name: text, site_id: text, fleet_id: text, online: bool, decommissioned: bool });
export type RobotPlace = RowOf<typeof placeRow>;
const placeColumns = sql`id, name, site_id, fleet_id, node_id is not null as online, decommissioned_at is not null as decommissioned`;

export const findPlace = (db: Db, org_id: string, id: string): Promise<RobotPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeColumns} from robot where org_id = ${org_id} and id = ${id}`);

/** Locks the robot's row against changes until the transaction ends. Rows that refer to the robot can still be inserted. */
export const lockRobot = (db: Db, org_id: string, id: string): Promise<RobotPlace | undefined> =>
  db.maybe(sql(placeRow)`select ${placeColumns} from robot where org_id = ${org_id} and id = ${id} for no key update`);

/** Returns the SQL assignments that move robots to `fleet`. If it is undefined, only updates `updated_at`. */
function movedTo(fleet: { id: string; site_id: string } | undefined, now: Date): Statement<unknown> {
  if (fleet === undefined) return sql`updated_at = ${now}`;
  return sql`site_id = ${fleet.site_id}, fleet_id = ${fleet.id}, fleet_since = case when ${fleet.id} = fleet_id then fleet_since else ${now} end,
    fleet_order_number = case when ${fleet.id} = fleet_id then fleet_order_number else nextval('order_number') end, updated_at = ${now}`;
}

interface RobotChange {
  name?: string | undefined;
  labels?: Record<string, string> | undefined;
  fleet?: { id: string; site_id: string } | undefined;
}

export const updateRobot = (db: Db, org_id: string, id: string, { name, labels, fleet }: RobotChange, now: Date): Promise<number> =>
  db.run(sql`
    update robot set name = coalesce(${name ?? null}, name), labels = coalesce(${json(labels)}::jsonb, labels), ${movedTo(fleet, now)}
    where org_id = ${org_id} and id = ${id}`);

export const decommissionRobot = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set decommissioned_at = ${now}, node_id = null, node_epoch = null, session_id = null, updated_at = ${now}
    where org_id = ${org_id} and id = ${id} and decommissioned_at is null`);

/** Quarantines a robot: the server refuses all machines with this robot's identity until an operator ends the quarantine. */
export const quarantineRobot = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`update robot set held_at = ${now}, updated_at = ${now} where org_id = ${org_id} and id = ${id} and held_at is null`);

/**
 * Ends a quarantine. Returns 0 if there was none. Clears the list of agent runs, so that the next machine does not count as a duplicate of
 * an earlier one.
 */
export const releaseQuarantined = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set held_at = null, runs = '[]', updated_at = ${now} where org_id = ${org_id} and id = ${id} and held_at is not null`);

/** Approves a robot. Returns 0 if it was approved before. */
export const setApproved = (db: Db, org_id: string, id: string, now: Date): Promise<number> =>
  db.run(sql`
    update robot set approval_requested_at = null, updated_at = ${now} where org_id = ${org_id} and id = ${id} and approval_requested_at is not null`);

interface NewComputer {
  org_id: string;
  id: string;
  /** The raw public key; its length states its type: see `publicKeyType`. */
  public_key: Buffer;
  enrollment_key_id: string;
  platform: Platform | undefined;
  /** Whether the robot may get secrets without further approval. */
  approved: boolean;
  at: Date;
}

/**
 * Assigns a robot's identity to a new computer. Also ends a quarantine, and the session of the previous computer. Returns 0 if the robot
 * was decommissioned.
 */
export const giveRobotKey = (db: Db, { org_id, id, public_key, enrollment_key_id, platform, approved, at }: NewComputer): Promise<number> =>
  db.run(sql`
    update robot set public_key = ${public_key}, enrollment_key_id = ${enrollment_key_id}, platform = coalesce(${json(platform)}::jsonb, platform),
      held_at = null, runs = '[]', session_id = null, approval_requested_at = ${approved ? null : at}, updated_at = ${at}
    where org_id = ${org_id} and id = ${id} and decommissioned_at is null`);

export interface NewRobot {
  id: string;
  name: string;
  site_id: string;
  fleet_id: string;
  labels: Record<string, string>;
  /** The raw public key; its length states its type: see `publicKeyType`. */
  public_key: Buffer;
  platform: Platform | undefined;
  /** Whether the robot may get secrets without further approval. */
  approved: boolean;
}

/** Returns the statement that inserts new robots of one org. */
export function insertingRobots(org_id: string, enrollment_key_id: string, robots: readonly NewRobot[], at: Date): Statement<unknown> {
  const column = (of: (robot: NewRobot) => string | boolean | Buffer | null) => list(robots.map(of));
  return sql`
    insert into robot (org_id, id, name, site_id, fleet_id, labels, public_key, enrollment_key_id, platform, approval_requested_at, created_at, updated_at)
    select ${org_id}, id, name, site_id, fleet_id, labels::jsonb, public_key, ${enrollment_key_id}, platform::jsonb,
      case when not approved then ${at}::timestamptz end, ${at}, ${at}
    from unnest(${column(({ id }) => id)}::text[], ${column(({ name }) => name)}::text[], ${column(({ site_id }) => site_id)}::text[],
      ${column(({ fleet_id }) => fleet_id)}::text[], ${column(({ labels }) => JSON.stringify(labels))}::text[],
      ${column(({ public_key }) => public_key)}::bytea[], ${column(({ platform }) => JSON.stringify(platform) ?? null)}::text[],
      ${column(({ approved }) => approved)}::bool[]) as r (id, name, site_id, fleet_id, labels, public_key, platform, approved)`;
}

/** Revokes the approval of every robot, so that an admin must approve it again. Returns how many robots were approved. */
export const revokeEveryApproval = (db: Db, now: Date): Promise<number> =>
  db.run(sql`
    -- across orgs: a restored backup contains the robots of all of them
    update robot set approval_requested_at = ${now}, updated_at = ${now}
    where approval_requested_at is null and decommissioned_at is null`);

const identityRow = row({ org_id: text, robot_id: text, public_key: bytea, decommissioned: bool, quarantined: bool, suspended: bool });

export type IdentityRow = RowOf<typeof identityRow>;

/** Finds robots by id when their orgs are not known yet. */
export const findIdentities = (db: Db, robot_ids: readonly string[]): Promise<IdentityRow[]> =>
  // reads tables of other features: robot_key, org
  db.many(sql(identityRow)`
    select r.org_id, r.id as robot_id, k.public_key, r.decommissioned_at is not null as decommissioned, r.held_at is not null as quarantined,
      o.status = 'suspended' as suspended
    from robot_key k join robot r on r.org_id = k.org_id and r.id = k.robot_id join org o on o.id = r.org_id
    where k.robot_id = any(${list(robot_ids)}::text[])`);

export const findIdentity = async (db: Db, robot_id: string): Promise<IdentityRow | undefined> => (await findIdentities(db, [robot_id]))[0];

/** Maximum labels per robot. */
export const LABELS_MAX = 64;

const bulkRow = row({ id: text, site_id: text, fleet_id: text, decommissioned: bool, labels_change: bool, labels_after: int });
export type BulkRow = RowOf<typeof bulkRow>;

interface LabelChange {
  set: Record<string, string>;
  remove: readonly string[];
}

/**
 * Locks those of the robots that exist, in the order of ids to prevent deadlocks. Returns, for each one, how the label change would affect
 * it.
 */
export const lockRobots = (db: Db, org_id: string, ids: readonly string[], { set, remove }: LabelChange): Promise<BulkRow[]> =>
  db.many(sql(bulkRow)`
    with locked as (
      select id, site_id, fleet_id, decommissioned_at is not null as decommissioned, labels, (labels - ${list(remove)}::text[]) || ${json(set)}::jsonb as after
      from robot where org_id = ${org_id} and id = any(${list(ids)}::text[]) order by id for no key update)
    select id, site_id, fleet_id, decommissioned, after <> labels as labels_change,
      (select count(*)::int from jsonb_object_keys(after)) as labels_after
    from locked`);

export const updateRobots = (
  db: Db,
  org_id: string,
  ids: readonly string[],
  { set, remove, fleet }: LabelChange & { fleet: { id: string; site_id: string } | undefined },
  now: Date,
): Promise<number> =>
  db.run(sql`
    update robot set labels = (labels - ${list(remove)}::text[]) || ${json(set)}::jsonb, ${movedTo(fleet, now)}
    where org_id = ${org_id} and id = any(${list(ids)}::text[])`);

/** Maximum stored nonces of one robot, which limits its signed requests in the time for which a nonce is stored. */
export const NONCES_MAX = 5_000;

interface UsedNonce {
  org_id: string;
  robot_id: string;
  nonce: string;
}

/**
 * Stores the nonce of a signed request, to detect a replay on any node. Returns `used_before` if it is already stored, and `too_many` if
 * the robot has NONCES_MAX stored nonces. A nonce is stored for twice the time in which the request's timestamp is accepted. Uses the clock
 * of the database, because the clocks of nodes differ.
 */
export async function useNonce(db: Db, { org_id, robot_id, nonce }: UsedNonce): Promise<"stored" | "used_before" | "too_many"> {
  const stored = await db.run(sql`
    insert into robot_request (org_id, robot_id, nonce, expires_at)
    select ${org_id}, ${robot_id}, ${nonce}, now() + interval '10 minutes'
    where (select count(*) from (select 1 from robot_request where org_id = ${org_id} and robot_id = ${robot_id} limit ${NONCES_MAX}) as used)
      < ${NONCES_MAX}
    on conflict do nothing`);
  if (stored === 1) return "stored";
  const used = await db.one(sql(row({ nonces: int }))`
    select count(*)::int as nonces from (select 1 from robot_request where org_id = ${org_id} and robot_id = ${robot_id} limit ${NONCES_MAX}) as used`);
  return used.nonces < NONCES_MAX ? "used_before" : "too_many";
}

/** Deletes at most `limit` expired nonces of all orgs, after skipping `offset`. Returns how many it deleted. */
export const deleteUsedNonces = (db: SystemDb, limit: number, offset: number): Promise<number> =>
  db.run(sql`
    -- across orgs: a sweep by time
    delete from robot_request where ctid = any(array(
      select ctid from robot_request where expires_at < now() order by expires_at, org_id, robot_id, nonce limit ${limit} offset ${offset}))`);
