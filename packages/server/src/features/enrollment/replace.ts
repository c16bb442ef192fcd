import { randomBytes } from "node:crypto";
import { ID_PREFIXES, SECRET_PREFIXES } from "@roamfleet/protocol";
import type { NewEnrollmentKey } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { type Caller, mayInWholeOrg, robotActor } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { conflict, forbidden, notFound, printable } from "../../kernel/fault.ts";
import { authorityOf } from "../access/index.ts";
import { announce } from "../events/index.ts";
import { endLinkOfReplaced, giveRobotKey, lockRobot } from "../robots/index.ts";
import { recordTimeline } from "../timeline/index.ts";
import { keyHash, SECRET_BYTES } from "./create.ts";
import { requireAuthority } from "./require-authority.ts";
import { insertKey, type KeyRow, replaceRobotKey, revokeReplacements } from "./store.ts";
import { toWire } from "./wire.ts";

const LIFE_MS = 24 * 3_600_000;

/** Creates the key with which the robot's new computer enrolls; earlier unused ones are revoked. */
export const createReplacementKey = (plane: Plane, db: Db, caller: Caller, robot_id: string): Promise<NewEnrollmentKey> =>
  db.transaction(async (tx) => {
    const { org_id, actor } = caller;
    const robot = await lockRobot(tx, org_id, robot_id);
    if (robot === undefined) throw notFound("robot", robot_id);
    if (robot.decommissioned) throw conflict(`robot ${robot_id} is decommissioned: enroll its new computer as a new robot`);
    const at = plane.clock.now();
    const revoked = await revokeReplacements(tx, org_id, robot_id, at);
    const secret = SECRET_PREFIXES.enrollment_key + randomBytes(SECRET_BYTES).toString("hex");
    const { site_id, fleet_id, name } = robot;
    const key = await insertKey(tx, {
      org_id,
      id: plane.id(ID_PREFIXES.enrollment_key),
      hash: keyHash(secret),
      label: `new computer of ${printable(name)}`,
      site_id,
      fleet_id,
      robot_id,
      trusted: mayInWholeOrg(caller, "admin"),
      max_uses: 1,
      expires_at: new Date(at.getTime() + LIFE_MS),
      created_by: actor,
      authority: authorityOf(caller),
      at,
    });
    announce(tx, plane, org_id, [
      ...revoked.map((old) => ({ kind: "enrollment_key" as const, id: old.id, change: "updated", robot_id })),
      { kind: "enrollment_key", id: key.id, change: "created", robot_id, fleet_id },
    ]);
    return { ...toWire(key, at), key: secret };
  });

type Platform = Parameters<typeof giveRobotKey>[1]["platform"];

/**
 * Gives the robot's identity to the computer with `public_key`; the previous one is disconnected and refused. Throws 403 if the robot was
 * decommissioned.
 */
export async function takePlace(
  plane: Plane,
  tx: Db,
  key: KeyRow & { robot_id: string },
  public_key: Buffer,
  platform: Platform,
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
    summary: "A new computer replaced the robot's; the key of the previous one is refused",
    data: { enrollment_key_id: key_id, approval: approved ? "approved" : "pending" },
  });
  announce(tx, plane, org_id, [
    { kind: "robot", id: robot_id, change: "updated" },
    { kind: "enrollment_key", id: key_id, change: "updated", robot_id },
  ]);
  endLinkOfReplaced(plane, tx, robot_id);
  return { name: robot.name };
}
