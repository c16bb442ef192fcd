import { AGENT_APP, isTerminal, type Reason, REASONS, type TargetStatus } from "@roamfleet/protocol";
import type { AppReport, ConfigReport, Progress, Report, ReportBody, TargetReport } from "@roamfleet/protocol/link";
import type { Session } from "../../../link/index.ts";
import type { Db } from "../../../kernel/db.ts";
import { announce, type AnnouncedChange } from "../../events/index.ts";
import { deadlineOf, retryAt, verifySecondsOf } from "../policy.ts";
import { afterReport, cancelReason, isRevocable, requestsOf, taskOf, type Verdict } from "../state.ts";
import { lockDeployments } from "../store/deployments.ts";
import {
  type AppState,
  bumpGenerations,
  desiredBy,
  listAppStates,
  listConfigStates,
  listTargetsOfFiles,
  releaseConfigs,
  setAppsApplied,
  setConfigsReported,
  setDesiredApps,
  setObserved,
  takePositions,
} from "../store/robot-state.ts";
import { setAppsReported } from "../store/robots.ts";
import type { DeploymentRow, TargetRow } from "../store/rows.ts";
import { lockTargetsOf, setDelayedByRobot, setProgress, type TargetChange } from "../store/targets.ts";
import { targetChange } from "../messages.ts";
import { type Engine, HINT_PUSH, moveTargets } from "../transition.ts";
import { robotActor, SYSTEM } from "../../../kernel/caller.ts";
import { revertDesiredState } from "../cancel/end-targets.ts";
import { waitForWindow } from "../dispatch/install-window.ts";
import { rollBackRobots } from "../rollback/return-robots.ts";

/** A durable report with its robot and outbox. */
export interface RobotReport {
  robot_id: string;
  outbox_id: string;
  seq: number;
  body: ReportBody;
}

export const robotReport = ({ robot_id, hello }: Pick<Session, "robot_id" | "hello">, { seq, body }: Report): RobotReport => ({
  robot_id,
  outbox_id: hello.outbox_id,
  seq,
  body,
});

type Of<B extends ReportBody> = RobotReport & { body: B };

/**
 * Stores durable reports of one org's robots exactly once; at most one report per robot. Outbox positions, changes and events are written
 * in one transaction. Reports that were already stored change nothing. The result is the same as if the reports were stored one at a time,
 * in this order.
 */
export async function takeReports(db: Db, engine: Engine, org_id: string, reports: readonly RobotReport[]): Promise<void> {
  await db.transaction(async (tx) => {
    const now = engine.clock.now();
    const files = await targetsOfFiles(tx, org_id, reports);
    const named_ids = reports.flatMap(({ body }) => (body.kind === "target" ? [body.deployment_id] : []));
    const deployment_ids = new Set([...named_ids, ...[...files.values()].map(({ deployment_id }) => deployment_id)]);
    // Lock deployments before rows of robots, in the same order as dispatch does.
    const deployments = deployment_ids.size === 0 ? [] : await lockDeployments(tx, org_id, [...deployment_ids]);
    const fresh = new Set((await takePositions(tx, org_id, reports, now)).map(({ robot_id }) => robot_id));
    const taken = reports.filter(({ robot_id }) => fresh.has(robot_id));
    await storeReported(tx, org_id, taken, now);
    announce(tx, engine, org_id, taken.flatMap(robotChange));
    await applyMoves(tx, engine, deployments, await decideMoves(tx, engine, org_id, deployments, taken));
  });
}

/** Returns the change to publish for a report about the robot itself. */
function robotChange({ robot_id, body: { kind } }: RobotReport): AnnouncedChange[] {
  if (kind !== "app" && kind !== "config") return [];
  return [{ kind: "robot", id: robot_id, change: kind === "app" ? "release" : "config" }];
}

const ofKind = <K extends ReportBody["kind"]>(reports: readonly RobotReport[], kind: K): Of<Extract<ReportBody, { kind: K }>>[] =>
  reports.filter((report): report is Of<Extract<ReportBody, { kind: K }>> => report.body.kind === kind);

/** Stores what robots report about themselves, independent of targets. */
async function storeReported(tx: Db, org_id: string, taken: readonly RobotReport[], now: Date): Promise<void> {
  const withRobot = <B extends object>({ robot_id, body }: { robot_id: string; body: B }) => ({ ...body, robot_id });
  const observed = ofKind(taken, "observed").map(withRobot);
  const apps: (AppReport & { robot_id: string })[] = ofKind(taken, "app").map(withRobot);
  const configs: (ConfigReport & { robot_id: string })[] = ofKind(taken, "config").map(withRobot);
  if (observed.length > 0) await setObserved(tx, org_id, observed);
  if (apps.length > 0) await setAppsReported(tx, org_id, apps, now);
  if (configs.length > 0) await setConfigsReported(tx, org_id, configs, now);
}

type FileTarget = Awaited<ReturnType<typeof listTargetsOfFiles>>[number];

/** Returns, by robot, the open target that deployed the reported config file. */
async function targetsOfFiles(tx: Db, org_id: string, reports: readonly RobotReport[]): Promise<Map<string, FileTarget>> {
  const files = ofKind(reports, "config").map(({ robot_id, body }) => ({ robot_id, namespace: body.namespace }));
  if (files.length === 0) return new Map();
  return new Map((await listTargetsOfFiles(tx, org_id, files)).map((target) => [target.robot_id, target]));
}

/** Decides what the reports change, in order of arrival. */
async function decideMoves(
  tx: Db,
  engine: Engine,
  org_id: string,
  deployments: readonly DeploymentRow[],
  taken: readonly RobotReport[],
): Promise<ReportedMove[]> {
  // Read again under the lock: the desired state of these robots can no longer change.
  const files = await targetsOfFiles(tx, org_id, taken);
  const target_ids = taken.flatMap(({ robot_id, body }) =>
    body.kind === "target" ? [body.target_id] : body.kind === "config" ? (files.get(robot_id)?.target_id ?? []) : [],
  );
  if (target_ids.length === 0) return [];
  const by_id = new Map(deployments.map((deployment) => [deployment.id, deployment]));
  const locked = by_id.size === 0 ? [] : await lockTargetsOf(tx, org_id, [...by_id.keys()], target_ids);
  const targets = new Map(locked.map((target) => [target.id, target]));
  const arrived = await configsArrived(tx, org_id, [...targets.values()]);
  return taken.flatMap((report): ReportedMove[] => {
    const { body, robot_id } = report;
    if (body.kind === "target") {
      const move = decideTarget(by_id, targets.get(body.target_id), arrived, { ...report, body });
      if (!("ignored" in move)) return [move];
      const { target_id, attempt, status } = body;
      engine.log.info({ robot_id, target_id, attempt, status, why: move.ignored }, "report ignored");
    } else if (body.kind === "config") {
      const target = targets.get(files.get(robot_id)?.target_id ?? "");
      const move = target === undefined ? undefined : decideFile(target, arrived);
      if (move !== undefined) return [move];
    }
    return [];
  });
}

const reasonOf = (text: string | undefined): Reason | null =>
  (REASONS as readonly string[]).includes(text ?? "") ? (text as Reason) : null;

/** Decides what a report changes about its target. Pure. */
function decideTarget(
  deployments: ReadonlyMap<string, DeploymentRow>,
  target: TargetRow | undefined,
  arrived: ReadonlyMap<string, Arrived>,
  { robot_id, body }: Of<TargetReport>,
): ReportedMove | { ignored: string } {
  const deployment = deployments.get(body.deployment_id);
  // A robot may report only on its own targets. A target of another robot or org is treated as unknown.
  if (deployment === undefined || target === undefined || target.robot_id !== robot_id || target.deployment_id !== deployment.id)
    return { ignored: "unknown_target" };
  const verdict = afterReport(
    { ...target, task: taskOf(target) },
    { status: body.status, attempt: body.attempt, reason: reasonOf(body.reason) },
    requestsOf(deployment),
  );
  if ("ignored" in verdict) return verdict;
  const detail = isTerminal(verdict.to) ? body.message : undefined;
  if (target.kind !== "config" || verdict.to !== "applied") return { target, verdict, detail };
  // A config is applied when all its files are on the robot: see decideFile.
  const data = arrived.get(target.id);
  return data === undefined ? { ignored: "files_missing" } : { target, verdict, detail, data };
}

/**
 * Decides what changes when a config file has arrived on the robot. The last file of a target makes the target `applied`, even if the
 * robot's report about the target was lost. Pure.
 */
function decideFile(target: TargetRow, arrived: ReadonlyMap<string, Arrived>): ReportedMove | undefined {
  const data = arrived.get(target.id);
  if (data === undefined || target.status === "queued" || isTerminal(target.status)) return undefined;
  return { target, verdict: { to: "applied", reason: null }, detail: undefined, data };
}

type Arrived = { changed: boolean };

/** Returns the config targets whose files are all on the robot, and for each whether any of its files changed there. */
async function configsArrived(tx: Db, org_id: string, targets: readonly TargetRow[]): Promise<Map<string, Arrived>> {
  const configs = targets.filter(({ kind }) => kind === "config");
  if (configs.length === 0) return new Map();
  const states = Map.groupBy(await listConfigStates(tx, org_id, configs), ({ target_id }) => target_id);
  const whole = [...states].filter(([, files]) => files.every(({ state }) => state === "there"));
  return new Map(whole.map(([target_id, files]) => [target_id, { changed: files.some(({ unchanged }) => !unchanged) }]));
}

/**
 * Stores a progress message: the downloaded bytes, or that the robot delays the update. Downloaded bytes also extend the step's deadline.
 */
export async function takeProgress(
  db: Db,
  engine: Engine,
  { org_id, robot_id }: Session,
  { target_id, attempt, bytes_done, bytes_total, waiting_for }: Progress,
): Promise<void> {
  // While a robot delays an update, even offline, only its install window and the expiry of the deployment limit the delay.
  const at = { id: target_id, robot_id, attempt };
  const deadline_at = deadlineOf("downloading", 0, engine.clock.now());
  const moved =
    waiting_for === undefined
      ? await setProgress(db, org_id, { ...at, progress: { bytes_done, bytes_total }, deadline_at })
      : await setDelayedByRobot(db, org_id, { ...at, waiting_for });
  announce(
    db,
    engine,
    org_id,
    moved.map((target) => targetChange({ ...target, id: target_id, robot_id }, "progress")),
  );
}

/** What a robot's report changes about its target. */
export interface ReportedMove {
  target: TargetRow;
  verdict: Exclude<Verdict, { ignored: string }>;
  /** The robot's message about how the target ended. It is logged and added to the event's data. */
  detail: string | undefined;
  /** Additional fields of the event's data. */
  data?: Record<string, unknown>;
}

/** Statuses after which the robot keeps or completes its update even if the target is cancelled. */
const FINISHING: readonly TargetStatus[] = ["installing", "verifying", "applied"];

/** Moves targets of these deployments, whose rows the caller has locked; each target at most once. */
export async function applyMoves(
  tx: Db,
  engine: Engine,
  deployments: readonly DeploymentRow[],
  moves: readonly ReportedMove[],
): Promise<void> {
  const by_deployment = Map.groupBy(moves, ({ target }) => target.deployment_id);
  for (const deployment of deployments) {
    const own = by_deployment.get(deployment.id);
    if (own !== undefined) await applyOwn(tx, engine, deployment, own);
  }
  for (const { target, verdict, detail } of moves)
    if (detail !== undefined)
      engine.log.info({ robot_id: target.robot_id, target_id: target.id, status: verdict.to, detail }, "target ended");
}

/** Applies the moves of one deployment and their consequences for its robots. */
async function applyOwn(tx: Db, engine: Engine, deployment: DeploymentRow, moves: readonly ReportedMove[]): Promise<void> {
  const { org_id } = deployment;
  const now = engine.clock.now();
  const staying = moves.filter(({ verdict }) => verdict.reverts !== true);
  const windows = await installWindows(
    tx,
    deployment,
    moves.filter(({ verdict }) => verdict.to === "staged").map(({ target }) => target),
  );
  const row = await moveTargets(
    tx,
    engine,
    deployment,
    staying.map((move) => changeOf(deployment, move, now, windows.get(move.target.robot_id))),
    SYSTEM,
  );
  const to = (wanted: (status: TargetStatus) => boolean) => moves.filter(({ verdict }) => wanted(verdict.to)).map(({ target }) => target);
  const applied = to((status) => status === "applied");
  const over = to((status) => isTerminal(status) && status !== "applied");
  if (deployment.kind === "release") {
    await restoreDesired(
      tx,
      engine,
      deployment,
      to((status) => FINISHING.includes(status)),
    );
    await recordCurrentReleases(tx, deployment, moves, now);
    const reverting = moves.filter(({ verdict }) => verdict.reverts === true).map(({ target }) => target);
    await rollBackRobots(tx, engine, row, reverting, SYSTEM);
  } else if (applied.length > 0) await releaseConfigs(tx, org_id, applied);
  await revertDesiredState(tx, engine, org_id, over, new Map(moves.map(({ target, verdict }) => [target.id, verdict.to])));
}

/**
 * Records the release that each robot now runs if its target succeeded: the target's release or, after a requested rollback, the previous
 * one.
 */
async function recordCurrentReleases(tx: Db, { org_id, app }: DeploymentRow, moves: readonly ReportedMove[], now: Date): Promise<void> {
  const runs = moves.flatMap(({ target, verdict }) => {
    const { id, robot_id, release_id, previous_release_id } = target;
    if (verdict.to === "applied" || verdict.reverts === true) return [{ robot_id, release_id, target_id: id }];
    return target.reverting && verdict.to === "rolled_back" ? [{ robot_id, release_id: previous_release_id, target_id: id }] : [];
  });
  if (runs.length > 0) await setAppsApplied(tx, org_id, app ?? "main", runs, now);
}

/** Returns the app states with the install windows that were sent to these robots, by robot. Empty if the policy has no window. */
async function installWindows(tx: Db, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<Map<string, AppState>> {
  if (deployment.rollout.window === undefined || targets.length === 0) return new Map();
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  return new Map((await listAppStates(tx, deployment.org_id, robot_ids, deployment.app ?? "main")).map((state) => [state.robot_id, state]));
}

/**
 * Returns the event's data with the robot's message, because only the robot knows why its target failed. For a signature error and for a
 * version of the agent, returns the message also as `detail`, which users see in the event's message. A failure of the agent has no other
 * log on the server.
 */
function explain({ app }: DeploymentRow, reason: TargetChange["reason"], message: string): Record<string, string> {
  if (reason === "signature_invalid") return { detail: message };
  return app === AGENT_APP && reason !== null ? { detail: message, robot_says: message } : { robot_says: message };
}

function changeOf(
  deployment: DeploymentRow,
  { target, verdict, detail, data = {} }: ReportedMove,
  now: Date,
  window: AppState | undefined,
): TargetChange {
  // A robot that was asked to stop keeps its deadline for the acknowledgement.
  const stopping = cancelReason(requestsOf(deployment)) !== null && isRevocable(verdict.to);
  const held = window === undefined || verdict.to !== "staged" ? undefined : waitForWindow(window, now);
  return {
    target,
    to: verdict.to,
    reason: verdict.reason,
    waiting_for: held?.waiting_for ?? null,
    deadline_at: stopping ? target.deadline_at : (held?.deadline_at ?? deadlineOf(verdict.to, verifySecondsOf(deployment.rollout), now)),
    not_before_at: verdict.to === "queued" ? retryAt(target.attempt, now) : null,
    actor: robotActor(target.robot_id),
    data: detail === undefined ? data : { ...data, ...explain(deployment, verdict.reason, detail) },
  };
}

/**
 * Restores the desired state of robots that were already installing when their target was cancelled. Otherwise they would roll back after
 * the installation.
 */
async function restoreDesired(tx: Db, engine: Engine, deployment: DeploymentRow, targets: readonly TargetRow[]): Promise<void> {
  if (targets.length === 0) return;
  const { org_id } = deployment;
  const app = targets[0]?.subject ?? "";
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const states = new Map((await listAppStates(tx, org_id, robot_ids, app)).map((state) => [state.robot_id, state]));
  const again = targets.flatMap((target) => {
    const state = states.get(target.robot_id);
    if (state === undefined || state.target_id !== null || state.last_target_id !== target.id) return [];
    return [desiredBy(deployment, target, target)];
  });
  if (again.length === 0) return;
  const now = engine.clock.now();
  const again_ids = again.map(({ robot_id }) => robot_id);
  await bumpGenerations(tx, org_id, again_ids, now);
  await setDesiredApps(tx, org_id, again, now);
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: again_ids }));
}
