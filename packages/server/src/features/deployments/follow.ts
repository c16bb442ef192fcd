import type { Db, SystemDb } from "../../kernel/db.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { isolateFailures } from "../../kernel/in-halves.ts";
import { listFleetsToFollow, moveFollowCursor } from "../fleets/index.ts";
import { eachApart, Postponed } from "./each-apart.ts";
import { expiresAt } from "./expiry.ts";
import {
  type Behind,
  type Cause,
  insertRobotDeployments,
  listBehind,
  listOnlineMembers,
  type RobotDeployment,
  takeAttempts,
} from "./store/follow.ts";
import { ALL_NAMESPACES } from "./store/rows.ts";
import { holdRobots } from "./store/targets.ts";
import { type CreateContext, HINT_DISPATCH } from "./transition.ts";
import { Arrivals } from "./arrivals.ts";

/** Robots looked at in one statement; those of them that are behind are one transaction. */
const ROBOTS_AT_ONCE = 500;
/** Robots for which it failed are left alone for that long: less than the loop's interval, which tries again. */
const FAILED_AGAIN_MS = 4_000;

/**
 * Brings robots to what their fleet has, those that joined it afterwards or come back after its deployment had expired:
 * by a deployment of each robot's own, verified and rolled back like any other. Others, and those that have it, cost one
 * statement together.
 */
export async function followFleet(
  db: Db,
  engine: CreateContext,
  org_id: string,
  robot_ids: readonly string[],
  causes: readonly Cause[] = ["joined", "returned"],
): Promise<number> {
  const wanted = (behind: readonly Behind[]): Behind[] => behind.filter(({ cause }) => causes.includes(cause));
  const candidates = new Set(wanted(await listBehind(db, org_id, robot_ids)).map(({ robot_id }) => robot_id));
  if (candidates.size === 0) return 0;
  return db.transaction(async (tx) => {
    // Held against a move and a removal; looked at again, because they may just have been.
    await holdRobots(tx, org_id, [...candidates]);
    return bring(tx, engine, org_id, wanted(await listBehind(tx, org_id, [...candidates])));
  });
}

async function bring(tx: Db, engine: CreateContext, org_id: string, behind: readonly Behind[]): Promise<number> {
  if (behind.length === 0) return 0;
  const now = engine.clock.now();
  const planned = behind.map((one) => ({ one, deployment: deploymentFor(engine, one) }));
  const attempts = planned.map(({ one, deployment }) => ({ robot_id: one.robot_id, subject: one.wanted, deployment_id: deployment.id }));
  const earlier = behind.flatMap(({ earlier_id }) => earlier_id ?? []);
  const taken = new Set((await takeAttempts(tx, org_id, attempts, earlier, now)).map(({ deployment_id }) => deployment_id));
  const deployments = planned.map(({ deployment }) => deployment).filter(({ id }) => taken.has(id));
  if (deployments.length === 0) return 0;
  const expires_at = await expiresAt(tx, engine, org_id, {}, now);
  await insertRobotDeployments(tx, org_id, deployments, { actor: SYSTEM, now, expires_at });
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return deployments.length;
}

const BECAUSE: Record<Cause, string> = {
  joined: "the robot joined a fleet that has it",
  returned: "the robot came back after the fleet's deployment had expired",
};

function deploymentFor(
  engine: CreateContext,
  { robot_id, fleet_id, kind, app, wanted, source_id, rollout, cause }: Behind,
): RobotDeployment {
  const id = engine.id(kind === "release" ? "dep" : "cdep");
  const { verify_seconds } = rollout;
  return {
    id,
    target_id: engine.id("tgt"),
    event_id: engine.id("evt"),
    kind,
    robot_id,
    fleet_id,
    release_id: kind === "release" ? wanted : null,
    app: kind === "release" ? app : null,
    revision: kind === "release" ? null : id,
    subject: kind === "release" ? app : ALL_NAMESPACES,
    rollout: verify_seconds === undefined ? {} : { verify_seconds },
    message: `ready to go out: ${BECAUSE[cause]}`,
    data: { cause, fleet_id, deployment_id: source_id },
  };
}

/**
 * Background: looks at robots that have just connected, org by org: what fails for one is put back and tried again a little
 * later, and holds up no other. Answers true while there are more that can be looked at now.
 */
export async function followArrivals(db: SystemDb, engine: CreateContext, arrivals: Arrivals): Promise<boolean> {
  const { clock, log } = engine;
  let lost = false;
  for (const { org_id, robot_ids } of arrivals.take(ROBOTS_AT_ONCE, clock.now())) {
    const putBack = (ids: readonly string[]): void => arrivals.putBack(org_id, ids, new Date(clock.now().getTime() + FAILED_AGAIN_MS));
    // Without a database there is no need to try for the others.
    if (lost) {
      putBack(robot_ids);
      continue;
    }
    const failures = await isolateFailures(robot_ids, isConnectionLost, (some) =>
      followFleet(db.forOrg(org_id), engine, org_id, some),
    ).catch((error: unknown) => {
      lost = true;
      return { failed: robot_ids, error };
    });
    if (failures === undefined) continue;
    putBack(failures.failed);
    log.error({ err: failures.error, org_id, robots: failures.failed.length }, "robots that connected could not be brought to their fleet");
  }
  return arrivals.hasReady(clock.now());
}

/**
 * Background: looks at the members of fleets that have something else, or follow again: those that joined while its
 * deployment ran are not part of it. Members for which it fails are tried again like those that connect. Answers true while
 * there are more.
 */
export async function followFleets(
  db: SystemDb,
  engine: CreateContext,
  postponed = new Postponed(),
  arrivals = new Arrivals(),
): Promise<boolean> {
  const fleets = await listFleetsToFollow(db, 10, postponed.ids(engine.clock.now()));
  await eachApart(
    engine,
    postponed,
    fleets,
    (fleet) => fleet.id,
    async ({ org_id, id, follow_cursor, version }) => {
      const own = db.forOrg(org_id);
      const members = await listOnlineMembers(own, org_id, id, follow_cursor, ROBOTS_AT_ONCE);
      const robot_ids = members.map((member) => member.id);
      const failures = await isolateFailures(robot_ids, isConnectionLost, (some) => followFleet(own, engine, org_id, some, ["joined"]));
      if (failures !== undefined) {
        arrivals.putBack(org_id, failures.failed, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
        engine.log.error(
          { err: failures.error, org_id, fleet_id: id, robots: failures.failed.length },
          "robots could not be brought to their fleet",
        );
      }
      await moveFollowCursor(own, org_id, id, version, members.length < ROBOTS_AT_ONCE ? null : (members.at(-1)?.id ?? null));
    },
  );
  return fleets.length > 0;
}
