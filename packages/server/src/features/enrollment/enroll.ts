import { hash } from "node:crypto";
import { ID_PREFIXES } from "@roamfleet/protocol";
import type { BodyOf, Enrolled, Routes } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { isUniqueViolation } from "../../engines/db/index.ts";
import { type Place, robotActor } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { badRequest, Fault, forbidden, httpError, unauthorized } from "../../kernel/fault.ts";
import { KeyedBatcher } from "../../kernel/keyed-batcher.ts";
import { type Authorities, readAuthorities } from "../access/index.ts";
import { announce } from "../events/index.ts";
import { shareFleet } from "../fleets/index.ts";
import { endLinkOfReplaced, giveRobotKey, insertingRobots, isPublicKey, lockRobot } from "../robots/index.ts";
import { latestStatement } from "../signing/index.ts";
import { recordTimeline, recordTimelineMany, type TimelineRecord } from "../timeline/index.ts";
import {
  findKey,
  findOwner,
  findPresented,
  insertingKeys,
  type KeyOwner,
  type KeyRow,
  type KeyStatus,
  type Presented,
  type PresentedKey,
  replaceRobotKey,
  statusOf,
  takeUses,
} from "./store.ts";

type EnrollBody = BodyOf<Routes["enrollRobot"]>;
interface Enrollment {
  is_new: boolean;
  data: Enrolled;
}

const NAME_CHARACTERS_MAX = 200;
const ID_TAIL_CHARACTERS = 6;

export const keyHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

/** Maximum number of robots whose keys are read at once, and that are enrolled in one transaction. */
const BATCH_ROBOTS_MAX = 500;
/** Maximum number of robots of an org that wait for a transaction. */
const WAITING_PER_ORG_MAX = 10_000;
const RETRY_AFTER_SECONDS = "2";

interface NewComputer {
  key: KeyRow;
  public_key: Buffer;
  body: EnrollBody;
}

/**
 * Enrolls robots. A single robot is enrolled immediately. The next transaction enrolls all robots that arrive with the same key during one,
 * so thousands of concurrent robots need only a few transactions. Their keys are read together, too.
 */
export class Enroller {
  readonly #plane: Plane;
  readonly #presented: KeyedBatcher<Presented, PresentedKey | undefined>;
  readonly #batcher: KeyedBatcher<NewComputer, Enrollment | Fault>;
  /** Number of robots that wait for a transaction, by org. */
  readonly #waiting = new Map<string, number>();
  /** Running enrollments by public key. */
  readonly #running = new Map<string, Promise<unknown>>();

  constructor(plane: Plane) {
    this.#plane = plane;
    this.#presented = new KeyedBatcher({
      min_interval_ms: 0,
      items_max: BATCH_ROBOTS_MAX,
      concurrency_max: 1,
      work: (_, robots) => findPresented(plane.db, robots),
    });
    this.#batcher = new KeyedBatcher({
      min_interval_ms: 0,
      items_max: BATCH_ROBOTS_MAX,
      // The connection pool limits the transactions of an org, and serves orgs in turn.
      concurrency_max: Number.POSITIVE_INFINITY,
      uniqueBy: ({ public_key }) => public_key.toString("base64"),
      // A refusal is always about the key.
      affectsAll: (error) => error instanceof Fault || plane.db_errors.isOutage(error),
      work: (_, computers) => this.#enrollNew(computers),
    });
  }

  /**
   * Enrolls a robot with an enrollment key. Idempotent by public key: a robot that lost the response repeats the request and gets the same
   * result. Throws 400 if the public key is malformed. Throws 401 for an unknown enrollment key, which counts against the rate limit of
   * `ip`. Throws 403 with the reason if the enrollment key cannot be used or the robot was decommissioned, and 503 if too many robots wait.
   */
  async enroll(body: EnrollBody, ip: string): Promise<Enrollment> {
    const plane = this.#plane;
    const public_key = Buffer.from(body.public_key, "base64");
    const presented = await this.#presented.add("", { key_hash: keyHash(body.key), public_key });
    if (presented === undefined) {
      plane.rate_limits.unknown.take(ip);
      throw unknownKey();
    }
    const { key, owner, suspended } = presented;
    if (!isPublicKey(public_key)) throw badRequest("public_key is not a point on the curve P-256");
    if (owner !== undefined) return await known(plane, key, owner);
    const status = statusOf(key, plane.clock.now());
    if (status !== "active") throw unusable(status);
    if (suspended) throw forbidden("the org of the enrollment key is suspended");
    try {
      return await this.#once({ key, public_key, body });
    } catch (error) {
      // A concurrent request of the same robot may have succeeded, perhaps with the key's last use. Then return the result of that request.
      if (!isUniqueViolation(error) && !(error instanceof Fault)) throw error;
      const owner = await findOwner(plane.db, public_key);
      if (owner === undefined) throw error;
      return await known(plane, key, owner);
    }
  }

  /** Enrolls a computer. If a request of the same computer is running, waits for it first, because a batch with both would fail. */
  async #once(computer: NewComputer): Promise<Enrollment> {
    const { key, public_key } = computer;
    const name = public_key.toString("base64");
    const earlier = this.#running.get(name);
    if (earlier !== undefined) {
      await earlier.catch(() => {}); // its caller gets the error
      const owner = await findOwner(this.#plane.db, public_key);
      if (owner !== undefined) return await known(this.#plane, key, owner);
    }
    const running = this.#perform(computer);
    this.#running.set(name, running);
    try {
      return await running;
    } finally {
      if (this.#running.get(name) === running) this.#running.delete(name);
    }
  }

  async #perform(computer: NewComputer): Promise<Enrollment> {
    const { org_id, robot_id } = computer.key;
    const plane = this.#plane;
    if (robot_id !== null)
      return await plane.db.forOrg(org_id).transaction((tx) => replaceComputer(plane, tx, { ...computer.key, robot_id }, computer));
    const result = await this.#add(computer);
    if (result instanceof Fault) throw result;
    return result;
  }

  async #enrollNew(computers: readonly NewComputer[]): Promise<(Enrollment | Fault)[]> {
    const [first] = computers;
    if (first === undefined) return [];
    return await this.#plane.db.forOrg(first.key.org_id).transaction((tx) => enrollNew(this.#plane, tx, first.key, computers));
  }

  async #add(computer: NewComputer): Promise<Enrollment | Fault> {
    const { org_id, id } = computer.key;
    const waiting = this.#waiting.get(org_id) ?? 0;
    if (waiting >= WAITING_PER_ORG_MAX)
      throw httpError(503, "too many robots are enrolling; try again", { "retry-after": RETRY_AFTER_SECONDS });
    this.#waiting.set(org_id, waiting + 1);
    try {
      return await this.#batcher.add(id, computer);
    } finally {
      const left = (this.#waiting.get(org_id) ?? 1) - 1;
      if (left > 0) this.#waiting.set(org_id, left);
      else this.#waiting.delete(org_id);
    }
  }
}

/**
 * Creates a 403. Unlike a 401 for an unknown key, it does not count as guessing, because hundreds of robots may try a key that is used up.
 */
const unusable = (status: KeyStatus): Fault => forbidden(`the enrollment key is ${status}`);

const unknownKey = (): Fault => unauthorized("the enrollment key is not known");

/** Returns the result for a public key that has a robot already. */
async function known(plane: Plane, key: KeyRow, { org_id, robot_id, name, decommissioned }: KeyOwner): Promise<Enrollment> {
  if (org_id !== key.org_id) throw forbidden("this public key is enrolled in another org");
  if (decommissioned) throw forbidden("the robot with this public key was decommissioned; enroll its computer with a new public key");
  if (key.robot_id !== null && key.robot_id !== robot_id)
    throw forbidden("this public key belongs to another robot: use a new, empty state directory on the new computer");
  return { is_new: false, data: withTrust({ robot_id, org_id, name }, await latestStatement(plane.db.forOrg(org_id), org_id)) };
}

const withTrust = (data: Enrolled, trust: NonNullable<Enrolled["trust"]> | null): Enrolled => (trust === null ? data : { ...data, trust });

/**
 * Enrolls computers that have the same key as new robots. Returns an error for each one for which the key has no use left. Sends all
 * reads and locks in one write, and all inserts in one write with COMMIT.
 */
async function enrollNew(plane: Plane, tx: Db, key: KeyRow, computers: readonly NewComputer[]): Promise<(Enrollment | Fault)[]> {
  const { org_id, id: key_id, fleet_id } = key;
  const at = plane.clock.now();
  // Lock the fleet before the key: the deletion of a fleet takes these locks in the same order, which prevents deadlocks.
  const [fleet, uses, authorities, trust] = await Promise.all([
    shareFleet(tx, org_id, fleet_id),
    takeUses(tx, org_id, key_id, computers.length, at),
    readAuthorities(tx, org_id, [key]),
    latestStatement(tx, org_id),
  ]);
  if (fleet === undefined) throw unknownKey();
  if (uses === 0) throw await refusal(tx, key, at);
  const { site_id } = fleet;
  const { trusted } = requireAuthority(authorities, key, { site_id, fleet_id });
  const robots = computers.slice(0, uses).map(({ public_key, body: { name, labels = {}, platform } }) => {
    const id = plane.id(ID_PREFIXES.robot);
    return { id, name: name ?? defaultName(id, platform?.hostname), site_id, fleet_id, labels, public_key, platform, approved: trusted };
  });
  await tx.atCommit(insertingRobots(org_id, key_id, robots, at));
  await tx.atCommit(insertingKeys(org_id, robots, at));
  announce(tx, plane, org_id, [
    ...robots.map(({ id }) => ({
      kind: "robot" as const,
      id,
      change: "created" as const,
      fleet_id,
      site_id,
      places: [{ fleet_id, site_id }],
    })),
    { kind: "enrollment_key", id: key_id, change: "updated", fleet_id },
  ]);
  const entries = robots.map(({ id }): TimelineRecord => ({
    org_id,
    robot_id: id,
    kind: "robot.enrolled",
    actor: robotActor(id),
    summary: `The robot enrolled in fleet ${fleet.name}`,
    data: { enrollment_key_id: key_id, label: key.label, approval: trusted ? "approved" : "pending", site_id, fleet_id },
  }));
  await recordTimelineMany(tx, plane, entries, { at_commit: true });
  return computers.map((_, i) => {
    const robot = robots[i];
    return robot === undefined
      ? unusable("exhausted")
      : { is_new: true, data: withTrust({ robot_id: robot.id, org_id, name: robot.name }, trust) };
  });
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
 * Throws 403 unless the creator of the key may still enroll robots in this site and fleet. `authorities` must have been read in the same
 * transaction. The result `trusted` is true if the robot may get secrets: the key is trusted, and its creator is still an admin of the whole
 * org.
 */
function requireAuthority(authorities: Authorities, key: KeyRow, place: Place): { trusted: boolean } {
  const denial = authorities.denialAt(key, place);
  if (denial === "creator_removed")
    throw forbidden("the enrollment key is revoked: its creator left the org, or the creator's token was revoked");
  if (denial !== null) throw forbidden("the creator of the enrollment key may no longer enroll robots into its fleet");
  return { trusted: key.trusted && authorities.isOrgAdmin(key) };
}

/**
 * Assigns the identity of the key's robot to a new computer. Disconnects the previous computer, which is refused from then on. Throws 403 if
 * the robot was decommissioned.
 */
async function replaceComputer(
  plane: Plane,
  tx: Db,
  key: KeyRow & { robot_id: string },
  { public_key, body: { platform } }: NewComputer,
): Promise<Enrollment> {
  const { org_id, id: key_id, robot_id } = key;
  const at = plane.clock.now();
  const [uses, robot, authorities, trust] = await Promise.all([
    takeUses(tx, org_id, key_id, 1, at),
    lockRobot(tx, org_id, robot_id),
    readAuthorities(tx, org_id, [key]),
    latestStatement(tx, org_id),
  ]);
  if (uses === 0) throw await refusal(tx, key, at);
  const approved = robot !== undefined && requireAuthority(authorities, key, robot).trusted;
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
  return { is_new: true, data: withTrust({ robot_id, org_id, name: robot.name }, trust) };
}
