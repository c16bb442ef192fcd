import type { Db, SystemDb } from "../../../kernel/db.ts";
import { isConnectionLost } from "../../../engines/db/index.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import { isolateFailures } from "../../../kernel/isolate-failures.ts";
import { listFleetsToFollow, moveFollowCursor } from "../../fleets/index.ts";
import { Postponed, processEach } from "../reconciler.ts";
import { expiresAt, targetOf } from "../create/fan-out.ts";
import {
  type Behind,
  type Cause,
  insertRobotDeployments,
  listBehind,
  listOnlineMembers,
  type RobotDeployment,
  takeAttempts,
} from "../store/follow.ts";
import { insertEvents } from "../store/events.ts";
import { insertStarted, lockRobots } from "../store/targets.ts";
import { type CreateContext, deploymentEvent, HINT_DISPATCH } from "../transition.ts";
import { ConnectionSync } from "./connection-sync.ts";

/** Maximum robots per statement. One transaction deploys to all of these robots that lack their fleet's release or config. */
const ROBOTS_AT_ONCE = 500;
/** How long robots are skipped after a failure. It is shorter than the interval of the loop, so that the next run retries them. */
const FAILED_AGAIN_MS = 4_000;

/**
 * Deploys a fleet's release and config to robots that joined the fleet after its deployment, or that reconnected after that deployment had
 * expired. Each robot gets its own deployment, which is verified and rolled back like any other. Returns the number of deployments. One
 * statement checks all robots; robots that need nothing cause no further queries.
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
    // Lock the robots against a move and a removal. Read again, because either may have happened before the lock.
    await lockRobots(tx, org_id, [...candidates]);
    return deployTo(tx, engine, org_id, wanted(await listBehind(tx, org_id, [...candidates])));
  });
}

async function deployTo(tx: Db, engine: CreateContext, org_id: string, behind: readonly Behind[]): Promise<number> {
  if (behind.length === 0) return 0;
  const now = engine.clock.now();
  const planned = behind.map((one) => ({ one, deployment: deploymentFor(engine, one) }));
  const attempts = planned.map(({ one, deployment }) => ({ robot_id: one.robot_id, subject: one.wanted, deployment_id: deployment.id }));
  const earlier = behind.flatMap(({ earlier_id }) => earlier_id ?? []);
  const taken = new Set((await takeAttempts(tx, org_id, attempts, earlier, now)).map(({ deployment_id }) => deployment_id));
  const deployments = planned.map(({ deployment }) => deployment).filter(({ id }) => taken.has(id));
  if (deployments.length === 0) return 0;
  const expires_at = await expiresAt(tx, engine, org_id, {}, now);
  const rows = await insertRobotDeployments(tx, org_id, deployments, { actor: SYSTEM, now, expires_at });
  const causes = new Map(planned.map(({ one, deployment }) => [deployment.id, one]));
  const targets = rows.map((row) => targetOf(engine, row, now));
  await insertStarted(tx, org_id, targets);
  const events = rows.map((row) => deploymentEvent(engine, row, row.event_seq, SYSTEM, now, describe(causes.get(row.id))));
  await insertEvents(tx, org_id, events);
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return deployments.length;
}

const CAUSE_TEXTS: Record<Cause, string> = {
  joined: "the robot joined the fleet",
  returned: "the robot reconnected after the fleet's deployment had expired",
};

/** Returns the message and data of an automatic deployment's first event. */
const describe = (behind: Behind | undefined) =>
  behind === undefined
    ? {}
    : {
        message: `queued: ${CAUSE_TEXTS[behind.cause]}`,
        data: { cause: behind.cause, fleet_id: behind.fleet_id, deployment_id: behind.source_id },
      };

function deploymentFor(engine: CreateContext, { robot_id, fleet_id, kind, app, wanted, rollout }: Behind): RobotDeployment {
  const id = engine.id(kind === "release" ? "dep" : "cdep");
  const { verify_seconds } = rollout;
  return {
    id,
    kind,
    robot_id,
    fleet_id,
    release_id: kind === "release" ? wanted : null,
    app: kind === "release" ? app : null,
    revision: kind === "release" ? null : id,
    rollout: verify_seconds === undefined ? {} : { verify_seconds },
  };
}

/**
 * Background: checks robots that have just connected, org by org. Robots whose check fails are put back and retried a little later, without
 * delaying others. Returns true if more robots can be checked now.
 */
export async function followConnections(db: SystemDb, engine: CreateContext, connections: ConnectionSync): Promise<boolean> {
  const { clock, log } = engine;
  let lost = false;
  for (const { org_id, robot_ids } of connections.take(ROBOTS_AT_ONCE, clock.now())) {
    const putBack = (ids: readonly string[]): void => connections.putBack(org_id, ids, new Date(clock.now().getTime() + FAILED_AGAIN_MS));
    // The database is unreachable, so checking the other orgs would fail too.
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
    log.error(
      { err: failures.error, org_id, robots: failures.failed.length },
      "could not update connected robots to their fleet's release",
    );
  }
  return connections.hasReady(clock.now());
}

/**
 * Background: checks the members of fleets whose release or config changed, or for which automatic updates were enabled again. After a
 * change, robots may lack the release because they joined while the fleet's deployment ran. Members whose check fails are retried like
 * robots that connect. Returns true while members remain to be checked.
 */
export async function followFleets(
  db: SystemDb,
  engine: CreateContext,
  postponed = new Postponed(),
  connections = new ConnectionSync(),
): Promise<boolean> {
  const fleets = await listFleetsToFollow(db, 10, postponed.ids(engine.clock.now()));
  await processEach(engine, postponed, fleets, async ({ org_id, id, follow_cursor, version }) => {
    const own = db.forOrg(org_id);
    const members = await listOnlineMembers(own, org_id, id, follow_cursor, ROBOTS_AT_ONCE);
    const robot_ids = members.map((member) => member.id);
    const failures = await isolateFailures(robot_ids, isConnectionLost, (some) => followFleet(own, engine, org_id, some, ["joined"]));
    if (failures !== undefined) {
      connections.putBack(org_id, failures.failed, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
      engine.log.error(
        { err: failures.error, org_id, fleet_id: id, robots: failures.failed.length },
        "could not update robots to their fleet's release",
      );
    }
    await moveFollowCursor(own, org_id, id, version, members.length < ROBOTS_AT_ONCE ? null : (members.at(-1)?.id ?? null));
  });
  return fleets.length > 0;
}
