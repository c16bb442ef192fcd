import { APPS_MAX } from "@roamfleet/protocol/link";
import type { Db } from "../../kernel/db.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { readAuthorities } from "../access/index.ts";
import { decide } from "./decide.ts";
import { deadlineOf, verifySecondsOf } from "./policy.ts";
import { isLimited } from "./slots.ts";
import { mayDispatch } from "./state.ts";
import { listReleases, lockDeployments } from "./store/deployments.ts";
import { listUnwantedFollows } from "./store/follow.ts";
import { bumpGenerations, listAppStates, setDesiredApps } from "./store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { holdRobots, listOpenReleaseTargets, lockQueuedOf, setWaitingFor } from "./store/targets.ts";
import { type Engine, HINT_PUSH, moveToDispatched } from "./transition.ts";

/** Deployments per transaction: few enough that others wait only briefly for their rows. */
const BATCH_DEPLOYMENTS_MAX = 100;

interface Claimed {
  org_id: string;
  deployment_id: string;
  id: string;
}

interface Pair {
  deployment: DeploymentRow;
  target: TargetRow;
}

/**
 * Dispatches many single-robot deployments in a few statements per batch: thousands may be due at one moment, and a transaction for each
 * costs more than the work in it. Returns the ids of deployments that are done. The caller dispatches the others separately: those that
 * need more checks, and those of a batch in which one failed.
 */
export async function dispatchTogether(db: Db, engine: Engine, org_id: string, claimed: readonly Claimed[]): Promise<Set<string>> {
  const done = new Set<string>();
  for (let i = 0; i < claimed.length; i += BATCH_DEPLOYMENTS_MAX) {
    try {
      const batch = claimed.slice(i, i + BATCH_DEPLOYMENTS_MAX);
      for (const id of await db.transaction((tx) => dispatchBatch(tx, engine, org_id, batch))) done.add(id);
    } catch (error) {
      if (isConnectionLost(error)) throw error;
      // The caller dispatches each one separately, which finds and logs the failing one.
    }
  }
  return done;
}

const isPlain = (row: DeploymentRow): boolean =>
  row.kind === "release" && row.robot_id !== null && row.rollout.waves === undefined && row.rollout.window === undefined && !isLimited(row);

/** Takes the same steps as dispatch of one deployment, with the same locks in the same order. */
async function dispatchBatch(tx: Db, engine: Engine, org_id: string, claimed: readonly Claimed[]): Promise<string[]> {
  const now = engine.clock.now();
  const locked = await lockDeployments(
    tx,
    org_id,
    claimed.map(({ deployment_id }) => deployment_id),
  );
  const plain = new Map(locked.flatMap((row) => (isPlain(row) && mayDispatch(row, now) ? [[row.id, row] as const] : [])));
  const targets = await lockQueuedOf(
    tx,
    org_id,
    claimed.filter(({ deployment_id }) => plain.has(deployment_id)).map(({ id }) => id),
  );
  const pairs = await withoutRivals(
    tx,
    org_id,
    targets.flatMap((target): Pair[] => {
      const deployment = plain.get(target.deployment_id);
      return deployment === undefined ? [] : [{ deployment, target }];
    }),
  );
  if (pairs.length === 0) return [];
  const { going, waits } = await decideAll(tx, org_id, pairs);
  if (waits.length > 0)
    await setWaitingFor(
      tx,
      org_id,
      waits.map(({ target }) => target.id),
      waits.map(({ wait }) => wait),
    );
  const handed_over = going.length > 0 ? await handOver(tx, engine, org_id, going) : [];
  return [...handed_over, ...waits].map(({ deployment }) => deployment.id);
}

/** Returns pairs whose robot has no other open target of the app, each robot once. Others may have to wait or supersede a target. */
async function withoutRivals(tx: Db, org_id: string, pairs: readonly Pair[]): Promise<Pair[]> {
  const open = Map.groupBy(
    await listOpenReleaseTargets(
      tx,
      org_id,
      pairs.map(({ target }) => target.robot_id),
    ),
    ({ robot_id }) => robot_id,
  );
  const robots = new Set<string>();
  return pairs.filter(({ target }) => {
    const rivals = (open.get(target.robot_id) ?? []).filter(({ id, subject }) => id !== target.id && subject === target.subject);
    if (rivals.length > 0 || robots.has(target.robot_id)) return false;
    robots.add(target.robot_id);
    return true;
  });
}

/** Splits the pairs into those that are dispatched now and those that wait; targets that end instead are dispatched separately. */
async function decideAll(tx: Db, org_id: string, pairs: readonly Pair[]) {
  const robot_ids = pairs.map(({ target }) => target.robot_id);
  const robots = new Map((await holdRobots(tx, org_id, robot_ids)).map((robot) => [robot.id, robot]));
  const apps = await appsOf(tx, org_id, robot_ids);
  const authorities = await readAuthorities(
    tx,
    org_id,
    pairs.map(({ deployment }) => deployment),
  );
  const deployment_ids = pairs.map(({ deployment }) => deployment.id);
  const unwanted = new Map((await listUnwantedFollows(tx, org_id, deployment_ids)).map(({ id, reason }) => [id, reason]));
  const wanted = [...new Set(pairs.flatMap(({ target }) => target.release_id ?? []))];
  const releases = new Map((await listReleases(tx, org_id, wanted)).map((release) => [release.id, release]));
  const decided = pairs.map((pair) => ({
    ...pair,
    decision: decide({
      order_number: pair.deployment.order_number,
      robot: robots.get(pair.target.robot_id),
      release: pair.target.release_id === null ? undefined : (releases.get(pair.target.release_id) ?? "deleted"),
      rivals: [],
      last_order_number: apps.get(keyOf(pair.target))?.last_order_number ?? 0,
      denial: authorities.denialAt(pair.deployment, robots.get(pair.target.robot_id)) ?? unwanted.get(pair.deployment.id) ?? null,
    }),
  }));
  return {
    going: decided.filter(({ decision }) => "dispatch" in decision),
    waits: decided.flatMap(({ decision, ...pair }) => ("wait" in decision ? [{ ...pair, wait: decision.wait }] : [])),
  };
}

const keyOf = ({ robot_id, subject }: Pick<TargetRow, "robot_id" | "subject">): string => `${robot_id} ${subject}`;

async function appsOf(tx: Db, org_id: string, robot_ids: readonly string[]) {
  const states = await listAppStates(tx, org_id, robot_ids, null);
  return new Map(states.map((state) => [keyOf({ robot_id: state.robot_id, subject: state.app }), state]));
}

/** Dispatches to the robots that have room for the app. Returns the dispatched pairs. */
async function handOver(tx: Db, engine: Engine, org_id: string, pairs: readonly Pair[]): Promise<Pair[]> {
  const now = engine.clock.now();
  const robot_ids = pairs.map(({ target }) => target.robot_id);
  // Lock `robot_desired` before changing a robot's state, in the same order as reports do.
  const generations = new Map((await bumpGenerations(tx, org_id, robot_ids, now)).map((row) => [row.robot_id, row.generation]));
  const apps = await appsOf(tx, org_id, robot_ids);
  const count = Map.groupBy(apps.values(), ({ robot_id }) => robot_id);
  const going = pairs.filter(({ target }) => apps.has(keyOf(target)) || (count.get(target.robot_id)?.length ?? 0) < APPS_MAX);
  if (going.length === 0) return going;
  for (const [app, own] of Map.groupBy(going, ({ target }) => target.subject))
    await setDesiredApps(
      tx,
      org_id,
      app,
      own.map(({ deployment, target }) => ({
        robot_id: target.robot_id,
        release_id: target.release_id,
        target_id: target.id,
        deployment_id: deployment.id,
        order_number: deployment.order_number,
        attempt: target.attempt + 1,
        verify_seconds: verifySecondsOf(deployment.rollout),
      })),
      now,
    );
  await moveToDispatched(
    tx,
    engine,
    going.map(({ deployment, target }) => ({
      deployment,
      change: {
        target,
        to: "dispatched",
        reason: null,
        attempt: target.attempt + 1,
        deadline_at: deadlineOf("dispatched", verifySecondsOf(deployment.rollout), now),
        dispatch_generation: generations.get(target.robot_id) ?? null,
        // What ran before the first attempt: an unreachable robot may have installed the release since.
        previous_release_id: target.attempt > 0 ? target.previous_release_id : (apps.get(keyOf(target))?.current_release_id ?? null),
      },
    })),
    SYSTEM,
  );
  engine.metrics.targets_dispatched.inc(going.length);
  const pushed_ids = going.map(({ target }) => target.robot_id);
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: pushed_ids }));
  return going;
}
