import { APPS_MAX } from "@roamfleet/protocol/link";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { isConnectionLost } from "../../../engines/db/index.ts";
import { SYSTEM } from "../../../kernel/caller.ts";
import { isolateEach, isolateFailures } from "../../../kernel/isolate-failures.ts";
import { readAuthorities } from "../../access/index.ts";
import { decide, type Decision } from "../decide.ts";
import { revertDesiredState } from "../cancel/end-targets.ts";
import { afterReplacedFiles, isHandedOut, writeDesiredConfigs } from "./configs.ts";
import { deadlineOf, verifySecondsOf } from "../policy.ts";
import { installWindow } from "./install-window.ts";
import { batchGroups, byDeployment, type Postponed, processItems } from "../reconciler.ts";
import { limitSlots } from "./slots.ts";
import { mayDispatch } from "../state.ts";
import { type Claimed, listClaimable, postponeClaimed } from "../store/claim.ts";
import { listReleases, lockDeployments, patchDeployment } from "../store/deployments.ts";
import { listUnwantedFollows } from "../store/follow.ts";
import { listFullRobots } from "../store/robots.ts";
import { type AppState, bumpGenerations, desiredBy, listAppStates, listConfigOrders, settingDesiredApps } from "../store/robot-state.ts";
import { ALL_NAMESPACES, type DeploymentRow, type TargetRow } from "../store/rows.ts";
import {
  getTargets,
  listOpenTargets,
  lockQueued,
  lockRobots,
  lockTargets,
  type OpenTarget,
  setWaitingFor,
  type TargetChange,
} from "../store/targets.ts";
import { type Engine, freeSlots, HINT_PUSH, HINT_ROLLOUT, moveAll } from "../transition.ts";

const CLAIM_TARGETS = 500;
/** Maximum deployments per transaction. It is low, so that other transactions wait only briefly for their rows. */
const BATCH_DEPLOYMENTS_MAX = 100;
/** How long targets are skipped after their dispatch failed. */
const FAILED_AGAIN_MS = 60_000;

/** Background: dispatches queued targets to their robots. Returns true if there may be more. */
export async function dispatchQueued(db: SystemDb, engine: Engine, postponed: Postponed): Promise<boolean> {
  const now = engine.clock.now();
  const claimed = await listClaimable(db, now, CLAIM_TARGETS, postponed.ids(now));
  let more = byDeployment(claimed).some((targets) => targets.some(({ has_more, share }) => has_more || targets.length === share));
  let failed = 0;
  const attempt = async (tenant: Db, org_id: string, some: readonly Claimed[]): Promise<void> => {
    const skip = new Set(postponed.ids(engine.clock.now()));
    if (!(await dispatchTargets(tenant, engine, org_id, some, skip))) more = true;
  };
  const attemptSeparately = async (tenant: Db, org_id: string, own: readonly Claimed[]): Promise<void> => {
    const failures = await isolateFailures(own, isConnectionLost, (some) => attempt(tenant, org_id, some));
    const [first] = failures?.failed ?? [];
    if (failures === undefined || first === undefined) return;
    const { deployment_id } = first;
    failed += 1;
    // Logs only the first failure of a run, because one cause may affect hundreds of deployments.
    if (failed === 1) engine.log.error({ err: failures.error, org_id, deployment_id }, "a deployment could not be dispatched");
    // After many failures, the remaining targets are not tried separately. The next run dispatches them, unless all targets failed.
    const undivided = new Set(failures.failed.length < own.length ? failures.undivided : []);
    more ||= undivided.size > 0;
    const isolated = failures.failed.filter((target) => !undivided.has(target));
    // A failing target is postponed in its row. If even that write fails, the deployment is postponed in memory.
    const until = new Date(now.getTime() + FAILED_AGAIN_MS);
    await processItems(engine, postponed, [[{ org_id, id: deployment_id }]], () => postponeClaimed(tenant, org_id, idsOf(isolated), until));
  };
  for (const [org_id, own] of Map.groupBy(claimed, (target) => target.org_id)) {
    const tenant = db.forOrg(org_id);
    const batches = await isolateEach(batchesOf(own), isConnectionLost, (batch) => attempt(tenant, org_id, batch));
    // A failing deployment must not delay the others of its batch.
    for (const targets of byDeployment((batches?.failed ?? []).flat())) await attemptSeparately(tenant, org_id, targets);
  }
  return more;
}

const idsOf = (targets: readonly { id: string }[]): string[] => targets.map(({ id }) => id);
const robotsOf = (targets: readonly { robot_id: string }[]): string[] => targets.map(({ robot_id }) => robot_id);

/**
 * Groups claimed targets into batches, newest deployment first. If a robot has targets of several deployments, only the newest is
 * installed, and it supersedes the others.
 */
function batchesOf(claimed: readonly Claimed[]): Claimed[][] {
  const newest_first = byDeployment(claimed).toSorted(([a], [b]) => (b?.order_number ?? 0) - (a?.order_number ?? 0));
  return batchGroups(newest_first, BATCH_DEPLOYMENTS_MAX, () => 1);
}

/** Returns only the first target of each robot, in the order of `claimed`, because decisions about the same robot depend on each other. */
function oncePerRobot(claimed: readonly Claimed[], targets: readonly TargetRow[]): TargetRow[] {
  const by_id = new Map(targets.map((target) => [target.id, target]));
  const robots = new Map<string, TargetRow>();
  for (const target of claimed.flatMap(({ id }) => by_id.get(id) ?? []))
    if (!robots.has(target.robot_id)) robots.set(target.robot_id, target);
  return [...robots.values()];
}

/**
 * Whether an unclaimed target may be dispatched instead of an older, claimed one. A run claims only some of the waiting targets, so the
 * newest target of a robot may be unclaimed.
 */
const mayGoFirst = ({ target, deployment }: Pair, now: Date, skip: ReadonlySet<string>): boolean =>
  !skip.has(deployment.id) &&
  (target.not_before_at === null || target.not_before_at <= now) &&
  deployment.fan_out_done_at !== null &&
  deployment.rollback_requested_at === null;

/** Returns, for each robot, the target of the newest deployment, which supersedes the robot's older targets. */
const newestPerRobot = (pairs: readonly Pair[]): Pair[] => {
  const oldest_first = pairs.toSorted((a, b) => a.deployment.order_number - b.deployment.order_number);
  return [...new Map(oldest_first.map((pair) => [pair.target.robot_id, pair])).values()];
};

/**
 * Dispatches claimed targets of any number of deployments. May dispatch a newer, unclaimed target instead of a claimed one, unless its
 * deployment is in `skip`. Returns false if further claimed targets of the same robots are left for another transaction.
 */
async function dispatchTargets(
  db: Db,
  engine: Engine,
  org_id: string,
  claimed: readonly Claimed[],
  skip: ReadonlySet<string>,
): Promise<boolean> {
  return db.transaction(async (tx) => {
    const now = engine.clock.now();
    const read = await getTargets(tx, org_id, idsOf(claimed));
    const wanted = oncePerRobot(claimed, read);
    const by_robot = new Map(wanted.map((target) => [target.robot_id, target]));
    const rivals_before = (await listOpenTargets(tx, org_id, robotsOf(wanted), idsOf(wanted))).filter((other) => {
      const target = by_robot.get(other.robot_id);
      return target !== undefined && isRival(target, other);
    });
    // These targets may supersede targets of other deployments. Lock all these deployments in one statement, ordered by id, so that
    // transactions cannot deadlock.
    const deployment_ids = new Set([...wanted, ...rivals_before].map(({ deployment_id }) => deployment_id));
    const deployments = new Map((await lockDeployments(tx, org_id, [...deployment_ids])).map((row) => [row.id, row]));
    const queued = rivals_before.filter(
      ({ status, robot_id, subject }) => status === "queued" && by_robot.get(robot_id)?.subject === subject,
    );
    const pairs = (await lockQueued(tx, org_id, idsOf([...wanted, ...queued]))).flatMap((target): Pair[] => {
      const deployment = deployments.get(target.deployment_id);
      return deployment === undefined || !mayDispatch(deployment, now) ? [] : [{ target, deployment }];
    });
    const targets = newestPerRobot(
      pairs.filter(
        ({ target, deployment }) => by_robot.get(target.robot_id)?.id === target.id || mayGoFirst({ target, deployment }, now, skip),
      ),
    );
    if (targets.length > 0) await dispatchLocked(tx, engine, org_id, deployments, targets);
    return wanted.length === read.length;
  });
}

export interface Pair {
  target: TargetRow;
  deployment: DeploymentRow;
}

/** `release_tag` is undefined for a config, for the removal of an app and for a deleted release. */
type Decided = Pair & { decision: Decision; release_tag: string | undefined };

/**
 * Dispatches queued targets, makes them wait or ends them. The caller has locked the targets and `deployments`. `started` contains the
 * targets of deployments that start now. These are not stored yet; this function inserts them in their resulting state.
 */
export async function dispatchLocked(
  tx: Db,
  engine: Engine,
  org_id: string,
  deployments: ReadonlyMap<string, DeploymentRow>,
  pairs: readonly Pair[],
  started: readonly TargetRow[] = [],
): Promise<void> {
  const decided: Decided[] = [];
  for (const [deployment, own] of Map.groupBy(await decideAll(tx, org_id, pairs), (one) => one.deployment))
    decided.push(...(await limitSlots(tx, deployment, own)));
  const waits = decided.flatMap((one) => ("wait" in one.decision ? [{ ...one, wait: one.decision.wait }] : []));
  const supersede = decided.flatMap(({ decision }) => ("dispatch" in decision ? decision.supersede : []));
  const replaced = supersede.length === 0 ? [] : await lockTargets(tx, org_id, supersede);
  const dispatched = await writeDesired(
    tx,
    engine,
    decided.filter(({ decision }) => "dispatch" in decision),
  );
  const ended = decided.flatMap(({ target, decision, release_tag }): TargetChange[] =>
    "end" in decision ? [{ target, to: decision.end, reason: decision.reason, release_tag }] : [],
  );
  const waiting = new Map(waits.map(({ target, wait }) => [target.id, wait]));
  for (const [wait, own] of Map.groupBy(waits, (one) => one.wait))
    await setWaitingFor(tx, org_id, idsOf(own.map(({ target }) => target)), wait);
  const new_targets = new Map(started.map((target) => [target.deployment_id, { ...target, waiting_for: waiting.get(target.id) ?? null }]));
  // The desired state of these robots may still contain an earlier attempt.
  const begun = ended.flatMap(({ target }) => (target.attempt > 0 ? [target] : []));
  await revertDesiredState(tx, engine, org_id, begun);
  const changes = [...(await supersededBy(tx, org_id, dispatched, replaced, deployments)), ...dispatched, ...ended];
  const moves = Map.groupBy(changes, ({ target }) => target.deployment_id);
  const rows = await moveAll(
    tx,
    engine,
    [...deployments.values()].map((deployment) => ({
      deployment,
      changes: moves.get(deployment.id) ?? [],
      started: new_targets.get(deployment.id),
    })),
    SYSTEM,
  );
  const moved = new Map(rows.map((row) => [row.id, row]));
  for (const [deployment, own] of Map.groupBy(decided, (one) => one.deployment))
    await followWaits(tx, engine, moved.get(deployment.id) ?? deployment, own);
  engine.metrics.targets_dispatched.inc(dispatched.filter(isHandedOut).length);
  // Notify robots whose dispatch failed or waits for approval, too: their generation was also incremented.
  const robot_ids = decided.flatMap(({ target, decision }) => ("dispatch" in decision ? [target.robot_id] : []));
  if (robot_ids.length === 0) return;
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids }));
}

/**
 * Cancels the older targets of robots to which a newer one was dispatched. If nothing was dispatched to a robot, for example because its
 * config awaits approval or violates a schema, its older targets stay open. If an older target is for all namespaces and the newer one for
 * a single namespace, only that namespace's file is replaced, and the older target delivers the other files.
 */
async function supersededBy(
  tx: Db,
  org_id: string,
  dispatched: readonly TargetChange[],
  replaced: readonly TargetRow[],
  deployments: ReadonlyMap<string, DeploymentRow>,
): Promise<TargetChange[]> {
  const newer = new Map(dispatched.filter(isHandedOut).map(({ target }) => [target.robot_id, target]));
  const superseded: TargetChange[] = [];
  const partly: { target: TargetRow; actor: Actor }[] = [];
  for (const target of replaced) {
    const by = newer.get(target.robot_id);
    const actor = deployments.get(by?.deployment_id ?? "")?.created_by;
    // The deployment of this target became a rival after the locks were taken. The next run handles it.
    if (by === undefined || actor === undefined || !deployments.has(target.deployment_id)) continue;
    if (by.subject === target.subject || by.subject === ALL_NAMESPACES)
      superseded.push({ target, to: "cancelled", reason: "superseded", actor });
    // A queued target leaves out this file when it is dispatched.
    else if (target.status !== "queued") partly.push({ target, actor });
  }
  return [...superseded, ...(await afterReplacedFiles(tx, org_id, partly))];
}

/** Frees slots and checks the wave again after some robots of a deployment turned out to be offline. */
async function followWaits(tx: Db, engine: Engine, row: DeploymentRow, decided: readonly Decided[]): Promise<void> {
  const waits = new Set(decided.map(({ decision }) => ("wait" in decision ? decision.wait : undefined)));
  // Offline robots use no slot, so other robots may take it.
  if (mayDispatch(row, engine.clock.now()) && !waits.has("slot")) await freeSlots(tx, engine, row);
  // Offline robots do not delay a wave, so the wave may have passed now.
  if (row.rollout.waves === undefined || !waits.has("robot_online")) return;
  await patchDeployment(tx, row, { step_at: engine.clock.now() });
  tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
}

async function decideAll(tx: Db, org_id: string, pairs: readonly Pair[]): Promise<Decided[]> {
  if (pairs.length === 0) return [];
  const targets = pairs.map(({ target }) => target);
  const robot_ids = robotsOf(targets);
  const deployments = [...new Set(pairs.map(({ deployment }) => deployment))];
  const wanted = [...new Set(targets.flatMap(({ release_id }) => release_id ?? []))];
  const following = deployments.filter(({ authority }) => authority?.fleet_id !== undefined);
  // Sent without waiting in between. The rows are locked in this order.
  const [robot_rows, open_targets, last, release_rows, authorities, unwanted_rows] = await Promise.all([
    lockRobots(tx, org_id, robot_ids),
    listOpenTargets(tx, org_id, robot_ids, idsOf(targets)),
    lastOrderNumbers(tx, org_id, targets),
    listReleases(tx, org_id, wanted),
    readAuthorities(tx, org_id, deployments),
    following.length === 0 ? [] : listUnwantedFollows(tx, org_id, idsOf(following)),
  ]);
  const robots = new Map(robot_rows.map((robot) => [robot.id, robot]));
  const open = Map.groupBy(open_targets, ({ robot_id }) => robot_id);
  const releases = new Map(release_rows.map((release) => [release.id, release]));
  const unwanted = new Map(unwanted_rows.map(({ id, reason }) => [id, reason]));
  return pairs.map(({ target, deployment }) => {
    const robot = robots.get(target.robot_id);
    const release = target.release_id === null ? undefined : releases.get(target.release_id);
    const decision = decide({
      order_number: deployment.order_number,
      robot,
      release: target.release_id === null ? undefined : (release ?? "deleted"),
      rivals: rivalsOf(target, open.get(target.robot_id) ?? []),
      last_order_number: last(target),
      denial: authorities.denialAt(deployment, robot) ?? unwanted.get(deployment.id) ?? null,
    });
    return { target, deployment, decision, release_tag: release?.tag };
  });
}

/**
 * Whether another open target of the robot is for the same app or config namespace. A config target for all namespaces conflicts with every
 * config target of the robot.
 */
const isRival = (target: Pick<TargetRow, "kind" | "subject">, other: OpenTarget): boolean =>
  other.kind === target.kind &&
  (other.subject === target.subject ||
    (target.kind === "config" && (target.subject === ALL_NAMESPACES || other.subject === ALL_NAMESPACES)));

/** Returns those of the robot's other open targets that are for the same app or config namespace. */
export const rivalsOf = (target: Pick<TargetRow, "kind" | "subject">, others: readonly OpenTarget[]): OpenTarget[] =>
  others.filter((other) => isRival(target, other));

const keyOf = ({ robot_id, subject }: Pick<TargetRow, "robot_id" | "subject">): string => `${robot_id} ${subject}`;

type Subject = Pick<TargetRow, "robot_id" | "kind" | "subject">;

/** Returns a function that gives the highest order number that was ever dispatched to the robot and subject of one of these targets. */
export async function lastOrderNumbers(tx: Db, org_id: string, targets: readonly Subject[]): Promise<(target: Subject) => number> {
  const releases = targets.filter(({ kind }) => kind === "release");
  const last = new Map(Array.from(await appsOf(tx, org_id, releases), ([key, { last_order_number }]) => [key, last_order_number]));
  const configs = targets.filter(({ kind }) => kind === "config");
  for (const [subject, own] of Map.groupBy(configs, (target) => target.subject))
    for (const { robot_id, last_order_number } of await listConfigOrders(tx, org_id, robotsOf(own), subject))
      last.set(keyOf({ robot_id, subject }), last_order_number);
  return (target) => last.get(keyOf(target)) ?? 0;
}

/** Returns the state of each target's app on its robot, by `keyOf`. */
async function appsOf(tx: Db, org_id: string, targets: readonly Subject[]): Promise<Map<string, AppState>> {
  if (targets.length === 0) return new Map();
  const subjects = [...new Set(targets.map(({ subject }) => subject))];
  const states = await listAppStates(tx, org_id, robotsOf(targets), subjects.length === 1 ? (subjects[0] ?? "") : null);
  return new Map(states.map((state) => [keyOf({ robot_id: state.robot_id, subject: state.app }), state]));
}

/** Writes the new desired state of the robots. Returns a change for each target, except targets whose configs wait for approval. */
async function writeDesired(tx: Db, engine: Engine, pairs: readonly Decided[]): Promise<TargetChange[]> {
  const [first] = pairs;
  if (first === undefined) return [];
  const { org_id } = first.deployment;
  const now = engine.clock.now();
  const robot_ids = robotsOf(pairs.map(({ target }) => target));
  const releases = pairs.filter(({ target }) => target.kind === "release");
  const targets = releases.map(({ target }) => target);
  // Lock `robot_desired` before reading and changing a robot's state, in the same order as reports do. The reads are sent without waiting
  // for the lock, and PostgreSQL runs them after it.
  const [bumped, apps, full] = await Promise.all([
    bumpGenerations(tx, org_id, robot_ids, now),
    appsOf(tx, org_id, targets),
    targets.length === 0 ? new Set<string>() : listFullRobots(tx, org_id, robotsOf(targets)),
  ]);
  const generations = new Map(bumped.map((row) => [row.robot_id, row.generation]));
  const changes = await writeDesiredReleases(tx, org_id, releases, { apps, full }, now);
  for (const [deployment, own] of Map.groupBy(pairs, (pair) => pair.deployment)) {
    const configs = own.flatMap(({ target }) => (target.kind === "config" ? [target] : []));
    if (configs.length > 0) changes.push(...(await writeDesiredConfigs(tx, engine, deployment, configs)));
  }
  return changes.map((change) =>
    change.to === "dispatched" ? { ...change, dispatch_generation: generations.get(change.target.robot_id) ?? null } : change,
  );
}

/**
 * Writes the desired releases of the robots, which have `apps`. A target fails if its robot is in `full` and so has no room for another app.
 */
async function writeDesiredReleases(
  tx: Db,
  org_id: string,
  pairs: readonly Decided[],
  { apps, full }: { apps: ReadonlyMap<string, AppState>; full: ReadonlySet<string> },
  now: Date,
): Promise<TargetChange[]> {
  const going = pairs.filter(({ target }) => apps.has(keyOf(target)) || !full.has(target.robot_id));
  // Computed once per deployment, because finding the next window takes a considerable part of a millisecond.
  const windows = new Map(Array.from(new Set(going.map(({ deployment }) => deployment)), (one) => [one, installWindow(one, now)]));
  const desired = going.map(({ deployment, target }) => ({
    ...desiredBy(deployment, target, { release_id: target.release_id, attempt: target.attempt + 1 }),
    ...windows.get(deployment),
  }));
  if (desired.length > 0) await tx.atCommit(settingDesiredApps(org_id, desired, now));
  return pairs.map(({ target, deployment, release_tag }): TargetChange => {
    const attempt = target.attempt + 1;
    const state = apps.get(keyOf(target));
    if (state === undefined && full.has(target.robot_id)) {
      const detail = `the robot already has ${APPS_MAX} apps, the maximum; app ${target.subject} cannot be added`;
      return { target, to: "failed", reason: "incompatible", attempt, release_tag, data: { detail } };
    }
    return {
      target,
      to: "dispatched",
      reason: null,
      attempt,
      deadline_at: deadlineOf("dispatched", verifySecondsOf(deployment.rollout), now),
      // Keep the release that ran before the first attempt: a robot that was unreachable may have installed the new release since.
      previous_release_id: target.attempt > 0 ? target.previous_release_id : (state?.current_release_id ?? null),
      release_tag,
    };
  });
}
