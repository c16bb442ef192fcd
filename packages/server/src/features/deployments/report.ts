import { isTerminal, type Reason, REASONS } from "@roamfleet/protocol";
import type { AppReport, ConfigReport, Progress, Report, ReportBody, TargetReport } from "@roamfleet/protocol/link";
import type { Session } from "../../link/index.ts";
import type { Db } from "../../kernel/db.ts";
import { announce, type AnnouncedChange } from "../events/index.ts";
import { deadlineOf } from "./policy.ts";
import { applyMoves, type ReportedMove } from "./reported-moves.ts";
import { afterReport, requestsOf, taskOf } from "./state.ts";
import { lockDeployments } from "./store/deployments.ts";
import { listConfigStates, listTargetsOfFiles, setConfigsReported, setObserved, takePositions } from "./store/robot-state.ts";
import { setAppsReported } from "./store/reported-apps.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { lockTargetsOf, setHeldByRobot, setProgress } from "./store/targets.ts";
import { targetChange } from "./tell.ts";
import type { Engine } from "./transition.ts";

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
 * Takes durable reports of one org's robots, at most one per robot, exactly once. Outbox positions, changes and events are written in one
 * transaction. Reports that were already taken change nothing. The result is the same as if each were taken alone, in this order.
 */
export async function takeReports(db: Db, engine: Engine, org_id: string, reports: readonly RobotReport[]): Promise<void> {
  await db.transaction(async (tx) => {
    const now = engine.clock.now();
    const files = await targetsOfFiles(tx, org_id, reports);
    const named_ids = reports.flatMap(({ body }) => (body.kind === "target" ? [body.deployment_id] : []));
    const deployment_ids = new Set([...named_ids, ...[...files.values()].map(({ deployment_id }) => deployment_id)]);
    // Locked before rows of robots: dispatch takes its locks in the same order.
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
  // A robot may report only on its own targets: one of another robot or org counts as unknown.
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

/** Handles a config file that arrived on the robot. With the last file its target is applied, even if the robot's target report was lost. Pure. */
function decideFile(target: TargetRow, arrived: ReadonlyMap<string, Arrived>): ReportedMove | undefined {
  const data = arrived.get(target.id);
  if (data === undefined || target.status === "queued" || isTerminal(target.status)) return undefined;
  return { target, verdict: { to: "applied", reason: null }, detail: undefined, data };
}

type Arrived = { changed: boolean };

/** Returns the config targets of which every file is on the robot, and whether any file changed there. */
async function configsArrived(tx: Db, org_id: string, targets: readonly TargetRow[]): Promise<Map<string, Arrived>> {
  const configs = targets.filter(({ kind }) => kind === "config");
  if (configs.length === 0) return new Map();
  const states = Map.groupBy(await listConfigStates(tx, org_id, configs), ({ target_id }) => target_id);
  const whole = [...states].filter(([, files]) => files.every(({ state }) => state === "there"));
  return new Map(whole.map(([target_id, files]) => [target_id, { changed: files.some(({ unchanged }) => !unchanged) }]));
}

/** Stores download progress, or that the robot is holding the update back. Progress also extends the step's deadline. */
export async function takeProgress(
  db: Db,
  engine: Engine,
  { org_id, robot_id }: Session,
  { target_id, attempt, bytes_done, bytes_total, waiting_for }: Progress,
): Promise<void> {
  // While a robot holds an update back, even offline, only the deployment's expiry limits it.
  const at = { id: target_id, robot_id, attempt };
  const deadline_at = deadlineOf("downloading", 0, engine.clock.now());
  const moved =
    waiting_for === undefined
      ? await setProgress(db, org_id, { ...at, progress: { bytes_done, bytes_total }, deadline_at })
      : await setHeldByRobot(db, org_id, { ...at, waiting_for });
  announce(
    db,
    engine,
    org_id,
    moved.map((target) => targetChange({ ...target, id: target_id, robot_id }, "progress")),
  );
}
