import { APPS_MAX } from "@roamfleet/protocol/link";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { isConnectionLost } from "../../engines/db/index.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import { readAuthorities } from "../access/index.ts";
import { type Decision, decide } from "./decide.ts";
import { dispatchTogether } from "./dispatch-together.ts";
import { eachApart, Postponed } from "./each-apart.ts";
import { giveBack } from "./give-back.ts";
import { handOverConfigs } from "./hand-over-configs.ts";
import { deadlineOf, verifySecondsOf } from "./policy.ts";
import { installWindow } from "./install-window.ts";
import { limitSlots } from "./slots.ts";
import { mayDispatch } from "./state.ts";
import { listClaimable, postponeClaimed } from "./store/claim.ts";
import { listReleases, lockDeployments } from "./store/deployments.ts";
import { listUnwantedFollows } from "./store/follow.ts";
import { listFullRobots } from "./store/reported-apps.ts";
import { bumpGenerations, listAppStates, listConfigOrders, setDesiredApps } from "./store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import {
  getTargets,
  holdRobots,
  listRivals,
  lockQueued,
  lockTargets,
  type RivalRow,
  setWaitingFor,
  type TargetChange,
} from "./store/targets.ts";
import { setWaveProgress } from "./store/waves.ts";
import { type Engine, freeSlots, HINT_PUSH, HINT_ROLLOUT, moveTargets } from "./transition.ts";

/** Maximum targets per run; each deployment among them that is not to a single robot is one transaction. */
const CLAIM_TARGETS = 500;
/** How long targets are skipped after their dispatch failed. */
const FAILED_AGAIN_MS = 60_000;

/** Background: dispatches queued targets to their robots. Returns true if there may be more. */
export async function dispatchQueued(db: SystemDb, engine: Engine, postponed = new Postponed()): Promise<boolean> {
  const claimable = await listClaimable(db, engine.clock.now(), CLAIM_TARGETS, postponed.ids(engine.clock.now()));
  const by_deployment = [...Map.groupBy(claimable, ({ org_id, deployment_id }) => `${org_id} ${deployment_id}`).values()];
  // Newest first: a robot that reconnects to several deployments installs only the newest, which supersedes the others.
  const newest_first = by_deployment.toSorted(([a], [b]) => (b?.order_number ?? 0) - (a?.order_number ?? 0));
  const separate = (await dispatchSingles(db, engine, newest_first)).map((targets) => ({
    org_id: targets[0]?.org_id ?? "",
    deployment_id: targets[0]?.deployment_id ?? "",
    ids: targets.map(({ id }) => id),
  }));
  let failed = 0;
  // A failing target is postponed in its row. If even that write fails, the deployment is postponed in memory.
  await eachApart(
    engine,
    postponed,
    separate,
    ({ deployment_id }) => deployment_id,
    async ({ org_id, deployment_id, ids }) => {
      const own = db.forOrg(org_id);
      const failures = await isolateFailures(ids, isConnectionLost, (some) => dispatchTargets(own, engine, org_id, deployment_id, some));
      if (failures === undefined) return;
      failed += 1;
      // Log once per run: one cause may break hundreds.
      if (failed === 1) engine.log.error({ err: failures.error, org_id, deployment_id }, "a deployment could not be dispatched");
      await postponeClaimed(own, org_id, deployment_id, failures.failed, new Date(engine.clock.now().getTime() + FAILED_AGAIN_MS));
    },
  );
  return claimable.some(({ has_more }) => has_more) || by_deployment.some((targets) => targets.length === targets[0]?.share);
}

type Claimed = Awaited<ReturnType<typeof listClaimable>>[number];

/** Dispatches single-robot deployments in batches. Returns the targets that must be dispatched separately. */
async function dispatchSingles(db: SystemDb, engine: Engine, claimed: readonly Claimed[][]): Promise<Claimed[][]> {
  const single = claimed.flatMap((targets) => (targets.length === 1 ? targets : []));
  const done = new Set<string>();
  for (const [org_id, own] of Map.groupBy(single, (target) => target.org_id))
    for (const id of await dispatchTogether(db.forOrg(org_id), engine, org_id, own)) done.add(id);
  return claimed.filter(([first]) => !done.has(first?.deployment_id ?? ""));
}

async function dispatchTargets(db: Db, engine: Engine, org_id: string, deployment_id: string, ids: readonly string[]): Promise<void> {
  await db.transaction(async (tx) => {
    const rivals_before = await rivalsOf(tx, org_id, deployment_id, ids);
    // Deployments that may lose a target to this one are locked in the same statement, by id, so that transactions cannot deadlock.
    const locked = await lockDeployments(tx, org_id, [...new Set([deployment_id, ...rivals_before.map((rival) => rival.deployment_id)])]);
    const deployment = locked.find(({ id }) => id === deployment_id);
    if (deployment === undefined || !mayDispatch(deployment, engine.clock.now())) return;
    const targets = await lockQueued(tx, org_id, deployment_id, ids);
    if (targets.length === 0) return;
    const decided = await limitSlots(tx, deployment, await decideAll(tx, deployment, targets));
    const waits = decided.flatMap(({ target, decision }) => ("wait" in decision ? [{ id: target.id, wait: decision.wait }] : []));
    if (waits.length > 0)
      await setWaitingFor(
        tx,
        org_id,
        waits.map(({ id }) => id),
        waits.map(({ wait }) => wait),
      );
    const replaced = await lockTargets(
      tx,
      org_id,
      decided.flatMap(({ decision }) => ("dispatch" in decision ? decision.supersede : [])),
    );
    const going = decided.filter(({ decision }) => "dispatch" in decision).map(({ target }) => target);
    const ended = decided.flatMap(({ target, decision }): TargetChange[] =>
      "end" in decision ? [{ target, to: decision.end, reason: decision.reason }] : [],
    );
    const dispatched =
      going.length === 0 ? [] : await (deployment.kind === "release" ? handOver : handOverConfigs)(tx, engine, deployment, going);
    // A robot to which nothing was dispatched, as its config awaits approval or breaks a schema, keeps its older deployment.
    const handed = new Set(dispatched.flatMap(({ target, to }) => (to === "failed" ? [] : [target.robot_id])));
    await supersede(
      tx,
      engine,
      locked,
      replaced.filter(({ robot_id }) => handed.has(robot_id)),
      deployment.created_by,
    );
    // The desired state of these robots may still contain an earlier attempt.
    await giveBack(
      tx,
      engine,
      org_id,
      ended.flatMap(({ target }) => (target.attempt > 0 ? [target] : [])),
    );
    const row = await moveTargets(tx, engine, deployment, [...dispatched, ...ended], SYSTEM);
    // Offline robots use no slot: others may take it.
    if (mayDispatch(row, engine.clock.now()) && !waits.some(({ wait }) => wait === "slot")) await freeSlots(tx, engine, row);
    // Offline robots do not hold up a wave: it may have passed now.
    if (deployment.rollout.waves !== undefined && waits.some(({ wait }) => wait === "robot_online")) {
      await setWaveProgress(tx, org_id, deployment_id, { step_at: engine.clock.now() });
      tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
    }
    if (dispatched.length > 0) {
      engine.metrics.targets_dispatched.inc(dispatched.length);
      tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: going.map(({ robot_id }) => robot_id) }));
    }
  });
}

async function rivalsOf(tx: Db, org_id: string, deployment_id: string, ids: readonly string[]): Promise<RivalRow[]> {
  const [first, ...rest] = await getTargets(tx, org_id, ids);
  if (first === undefined) return [];
  return listRivals(tx, org_id, {
    deployment_id,
    kind: first.kind,
    subject: first.subject,
    robot_ids: [first, ...rest].map(({ robot_id }) => robot_id),
  });
}

async function decideAll(
  tx: Db,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
): Promise<{ target: TargetRow; decision: Decision }[]> {
  const { org_id, kind } = deployment;
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const subject = targets[0]?.subject ?? "";
  const robots = new Map((await holdRobots(tx, org_id, robot_ids)).map((robot) => [robot.id, robot]));
  const rivals = Map.groupBy(
    await listRivals(tx, org_id, { deployment_id: deployment.id, kind, subject, robot_ids }),
    ({ robot_id }) => robot_id,
  );
  const last = new Map(
    (kind === "release" ? await listAppStates(tx, org_id, robot_ids, subject) : await listConfigOrders(tx, org_id, robot_ids, subject)).map(
      (row) => [row.robot_id, row.last_order_number],
    ),
  );
  const wanted = [...new Set(targets.flatMap(({ release_id }) => release_id ?? []))];
  const authorities = await readAuthorities(tx, org_id, [deployment]);
  const [unwanted] = await listUnwantedFollows(tx, org_id, [deployment.id]);
  const releases = new Map((await listReleases(tx, org_id, wanted)).map((release) => [release.id, release]));
  return targets.map((target) => ({
    target,
    decision: decide({
      order_number: deployment.order_number,
      robot: robots.get(target.robot_id),
      release: target.release_id === null ? undefined : (releases.get(target.release_id) ?? "deleted"),
      rivals: rivals.get(target.robot_id) ?? [],
      last_order_number: last.get(target.robot_id) ?? 0,
      denial: authorities.denialAt(deployment, robots.get(target.robot_id)) ?? unwanted?.reason ?? null,
    }),
  }));
}

/** Ends older targets of the same robots and subject, one deployment at a time; their rows are already locked. */
async function supersede(
  tx: Db,
  engine: Engine,
  locked: readonly DeploymentRow[],
  targets: readonly TargetRow[],
  actor: Actor,
): Promise<void> {
  for (const [deployment_id, own] of Map.groupBy(targets, (target) => target.deployment_id)) {
    const deployment = locked.find(({ id }) => id === deployment_id);
    if (deployment === undefined) continue; // it became a rival after the locks were taken; the next run finds it
    await moveTargets(
      tx,
      engine,
      deployment,
      own.map((target) => ({ target, to: "cancelled", reason: "superseded" })),
      actor,
    );
  }
}

/**
 * Writes the new desired state of the robots. Returns the change of each target: to `dispatched`, or to `failed` if its robot has no room
 * for the app.
 */
async function handOver(tx: Db, engine: Engine, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<TargetChange[]> {
  const { org_id } = deployment;
  const now = engine.clock.now();
  const verify_seconds = verifySecondsOf(deployment.rollout);
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const app = deployment.app ?? "main";
  // Once for all targets: finding the next window takes a considerable part of a millisecond.
  const window = installWindow(deployment, now);
  const changesOf = (given: readonly TargetRow[]) =>
    given.map((target) => ({
      robot_id: target.robot_id,
      release_id: target.release_id,
      target_id: target.id,
      deployment_id: deployment.id,
      order_number: deployment.order_number,
      attempt: target.attempt + 1,
      verify_seconds,
      ...window,
    }));
  // Lock `robot_desired` before changing a robot's state, in the same order as reports do.
  const generations = new Map((await bumpGenerations(tx, org_id, robot_ids, now)).map((row) => [row.robot_id, row.generation]));
  const previous = new Map((await listAppStates(tx, org_id, robot_ids, app)).map((state) => [state.robot_id, state.current_release_id]));
  const full = await listFullRobots(tx, org_id, robot_ids, app);
  const given = targets.filter(({ robot_id }) => !full.has(robot_id));
  await setDesiredApps(tx, org_id, app, changesOf(given), now);
  return targets.map((target) =>
    full.has(target.robot_id)
      ? noRoom(target, app)
      : {
          target,
          to: "dispatched",
          reason: null,
          attempt: target.attempt + 1,
          deadline_at: deadlineOf("dispatched", verify_seconds, now),
          dispatch_generation: generations.get(target.robot_id) ?? null,
          // What ran before the first attempt: an unreachable robot may have installed the release since.
          previous_release_id: target.attempt > 0 ? target.previous_release_id : (previous.get(target.robot_id) ?? null),
        },
  );
}

const noRoom = (target: TargetRow, app: string): TargetChange => ({
  target,
  to: "failed",
  reason: "incompatible",
  attempt: target.attempt + 1,
  data: { detail: `the robot already has ${APPS_MAX} apps, the maximum; app ${app} cannot be added` },
});
