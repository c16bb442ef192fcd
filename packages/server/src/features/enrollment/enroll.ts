import { hash } from "node:crypto";
import { ID_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, Enrolled, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import { type Place, robotActor } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, Fault, forbidden, unauthorized } from "../../kernel/fault.ts";
import { readAuthorities } from "../access/index.ts";
import { announce } from "../events/index.ts";
import { shareFleet } from "../fleets/index.ts";
import { endLinkOfReplaced, giveRobotKey, insertRobot, isPublicKey, lockRobot } from "../robots/index.ts";
import { latestStatement } from "../signing/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import {
  findKey,
  findKeyByHash,
  findOwner,
  insertRobotKey,
  isSuspended,
  type KeyRow,
  type KeyStatus,
  replaceRobotKey,
  statusOf,
  takeUse,
} from "./store.ts";

type EnrollBody = BodyOf<Routes["enrollRobot"]>;
interface Enrollment {
  is_new: boolean;
  data: Enrolled;
}

const NAME_CHARACTERS_MAX = 200;
const ID_TAIL_CHARACTERS = 6;

export const keyHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

/**
 * Enrolls a robot with an enrollment key. Idempotent by public key: a robot that lost the response repeats the request and gets the same
 * result. Throws 400 if the public key is malformed. Throws 401 for an unknown enrollment key, which counts against the rate limit of `ip`.
 * Throws 403 with the reason if the enrollment key cannot be used or the robot was decommissioned.
 */
export async function enroll(plane: Plane, body: EnrollBody, ip: string): Promise<Enrollment> {
  const { is_new, data } = await enrollOnce(plane, body, ip);
  const trust = await latestStatement(plane.db.forOrg(data.org_id), data.org_id);
  return { is_new, data: trust === null ? data : { ...data, trust } };
}

async function enrollOnce(plane: Plane, body: EnrollBody, ip: string): Promise<Enrollment> {
  const found = await findKeyByHash(plane.db, keyHash(body.key));
  const key = found === undefined ? undefined : await findKey(plane.db.forOrg(found.org_id), found.org_id, found.id);
  if (key === undefined) {
    plane.rate_limits.unknown.take(ip);
    throw unknownKey();
  }
  const db = plane.db.forOrg(key.org_id);
  const public_key = Buffer.from(body.public_key, "base64");
  if (!isPublicKey(public_key)) throw badRequest("public_key is not a point on the curve P-256");
  const known = await findEnrolled(plane.db, key, public_key);
  if (known !== undefined) return known;
  const status = statusOf(key, plane.clock.now());
  if (status !== "active") throw unusable(status);
  if (await isSuspended(db, key.org_id)) throw forbidden("the org of the enrollment key is suspended");
  try {
    return await db.transaction((tx) => enrollNew(plane, tx, key, public_key, body));
  } catch (error) {
    // A concurrent request of the same robot may have succeeded, perhaps with the key's last use. Then return the result of that request.
    if (!isUniqueViolation(error) && !(error instanceof Fault)) throw error;
    const enrolled = await findEnrolled(plane.db, key, public_key);
    if (enrolled === undefined) throw error;
    return enrolled;
  }
}

/**
 * Creates a 403. Unlike a 401 for an unknown key, it does not count as guessing, because hundreds of robots may try a key that is used up.
 */
const unusable = (status: KeyStatus): Fault => forbidden(`the enrollment key is ${status}`);

const unknownKey = (): Fault => unauthorized("the enrollment key is not known");

async function findEnrolled(db: Db, key: KeyRow, public_key: Buffer): Promise<Enrollment | undefined> {
  const owner = await findOwner(db, public_key);
  if (owner === undefined) return undefined;
  if (owner.org_id !== key.org_id) throw forbidden("this public key is enrolled in another org");
  if (owner.decommissioned) throw forbidden("the robot with this public key was decommissioned; enroll its computer with a new public key");
  if (key.robot_id !== null && key.robot_id !== owner.robot_id)
    throw forbidden("this public key belongs to another robot: use a new, empty state directory on the new computer");
  return { is_new: false, data: { robot_id: owner.robot_id, org_id: owner.org_id, name: owner.name } };
}

async function enrollNew(plane: Plane, tx: Db, key: KeyRow, public_key: Buffer, body: EnrollBody): Promise<Enrollment> {
  const { org_id, id: key_id, fleet_id } = key;
  const at = plane.clock.now();
  if (key.robot_id !== null) {
    const { robot_id } = key;
    if ((await takeUse(tx, org_id, key_id, at)) === undefined) throw await refusal(tx, key, at);
    return { is_new: true, data: { robot_id, org_id, ...(await takePlace(plane, tx, { ...key, robot_id }, public_key, body.platform)) } };
  }
  // Lock the fleet before the key: the deletion of a fleet takes these locks in the same order, which prevents deadlocks.
  const fleet = await shareFleet(tx, org_id, fleet_id);
  if (fleet === undefined) throw unknownKey();
  if ((await takeUse(tx, org_id, key_id, at)) === undefined) throw await refusal(tx, key, at);
  const { trusted } = await requireAuthority(tx, key, { site_id: fleet.site_id, fleet_id });
  const robot_id = plane.id(ID_PREFIXES.robot);
  const name = body.name ?? defaultName(robot_id, body.platform?.hostname);
  const { labels = {}, platform } = body;
  await insertRobot(tx, {
    org_id,
    id: robot_id,
    name,
    site_id: fleet.site_id,
    fleet_id,
    labels,
    public_key,
    enrollment_key_id: key_id,
    platform,
    approved: trusted,
    at,
  });
  await insertRobotKey(tx, org_id, robot_id, public_key, at);
  const { site_id } = fleet;
  announce(tx, plane, org_id, [
    { kind: "robot", id: robot_id, change: "created", fleet_id, site_id, places: [{ fleet_id, site_id }] },
    { kind: "enrollment_key", id: key_id, change: "updated", fleet_id },
  ]);
  await recordTimeline(tx, plane, {
    org_id,
    robot_id,
    kind: "robot.enrolled",
    actor: robotActor(robot_id),
    summary: `The robot enrolled in fleet ${fleet.name}`,
    data: { enrollment_key_id: key_id, label: key.label, approval: trusted ? "approved" : "pending", site_id: fleet.site_id, fleet_id },
  });
  return { is_new: true, data: { robot_id, org_id, name } };
}

async function refusal(db: Db, { org_id, id }: KeyRow, now: Date): Promise<Fault> {
  const key = await findKey(db, org_id, id);
  if (key === undefined) return unknownKey();
  return unusable(statusOf(key, now));
}

/**
 * Returns the hostname without the characters that a robot's name may not contain. If nothing is left, returns a name made from the robot's
 * id.
 */
function defaultName(robot_id: string, hostname: string | undefined): string {
  const clean = (hostname ?? "")
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, "")
    .slice(0, NAME_CHARACTERS_MAX)
    .toWellFormed()
    .trim();
  return clean === "" ? `robot-${robot_id.slice(-ID_TAIL_CHARACTERS)}` : clean;
}

/**
 * Throws 403 unless the creator of the key may still enroll robots in this site and fleet. Locks the creator's permission until the
 * transaction ends. The result `trusted` is true if the robot may get secrets: the key is trusted, and its creator is still an admin of the
 * whole org.
 */
async function requireAuthority(tx: Db, key: KeyRow, place: Place): Promise<{ trusted: boolean }> {
  const authorities = await readAuthorities(tx, key.org_id, [key]);
  const denial = authorities.denialAt(key, place);
  if (denial === "creator_removed")
    throw forbidden("the enrollment key is revoked: its creator left the org, or the creator's token was revoked");
  if (denial !== null) throw forbidden("the creator of the enrollment key may no longer enroll robots into its fleet");
  return { trusted: key.trusted && authorities.isOrgAdmin(key) };
}

/**
 * Assigns the robot's identity to the computer with `public_key`. Disconnects the previous computer, which is refused from then on. Throws
 * 403 if the robot was decommissioned.
 */
async function takePlace(
  plane: Plane,
  tx: Db,
  key: KeyRow & { robot_id: string },
  public_key: Buffer,
  platform: EnrollBody["platform"],
): Promise<{ name: string }> {
  const { org_id, id: key_id, robot_id } = key;
  const at = plane.clock.now();
  const robot = await lockRobot(tx, org_id, robot_id);
  const approved = robot !== undefined && (await requireAuthority(tx, key, robot)).trusted;
  const given = await giveRobotKey(tx, { org_id, id: robot_id, public_key, enrollment_key_id: key_id, platform, approved, at });
  if (robot === undefined || given === 0) throw forbidden("the robot that this key is for was decommissioned");
  await replaceRobotKey(tx, org_id, robot_id, public_key, at);
  await recordTimeline(tx, plane, {
    org_id,
    robot_id,
    kind: "robot.replaced",
    actor: robotActor(robot_id),
    summary: "The robot's computer was replaced; the key of the previous computer is refused",
    data: { enrollment_key_id: key_id, approval: approved ? "approved" : "pending" },
  });
  announce(tx, plane, org_id, [
    { kind: "robot", id: robot_id, change: "updated" },
    { kind: "enrollment_key", id: key_id, change: "updated", robot_id },
  ]);
  endLinkOfReplaced(plane, tx, robot_id);
  return { name: robot.name };
}
