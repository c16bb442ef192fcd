import { isTerminal, type Reason, REASONS, type TargetStatus } from "@robofleet/protocol";
import type { AppReport, ConfigReport, Progress, Report, TargetReport } from "@robofleet/protocol/link";
import type { Session } from "../../link/index.ts";
import type { Db } from "../../kernel/db.ts";
import { robotActor } from "../../kernel/caller.ts";
import { deadlineOf, retryAt, verifySecondsOf } from "./policy.ts";
import { giveBack } from "./give-back.ts";
import { afterReport, isRevocable, type Verdict } from "./state.ts";
import { lockDeployments } from "./store/deployments.ts";
import {
  bumpGenerations,
  getConfigTarget,
  listAppStates,
  listConfigStates,
  releaseConfigs,
  setAppApplied,
  setAppReported,
  setConfigReported,
  setDesiredApps,
  setObserved,
  takePosition,
} from "./store/robot-state.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { getTarget, lockTargets, setProgress, type TargetChange } from "./store/targets.ts";
import { type Engine, HINT_PUSH, moveTargets } from "./transition.ts";

/**
 * Takes a robot's durable report, once: its number, what it changes and the events are one transaction, and only then
 * is it acknowledged. A report that was taken before is acknowledged again and changes nothing.
 */
export async function takeReport(db: Db, engine: Engine, session: Session, report: Report): Promise<void> {
  const { org_id, robot_id, hello } = session;
  const { body } = report;
  const deployment_id =
    body.kind === "target" ? body.deployment_id : body.kind === "config" ? await deploymentOfConfig(db, org_id, robot_id, body) : undefined;
  await db.transaction(async (tx) => {
    // Locked before anything of the robot: dispatch takes its locks in the same order.
    const [deployment] = deployment_id === undefined ? [] : await lockDeployments(tx, org_id, [deployment_id]);
    const fresh = await takePosition(tx, org_id, robot_id, hello.outbox_id, report.seq, engine.clock.now());
    if (fresh === 0) return;
    if (body.kind === "target") await takeTarget(tx, engine, session, deployment, body);
    else if (body.kind === "app") await takeApp(tx, engine, session, body);
    else if (body.kind === "config") await takeConfig(tx, engine, session, deployment, body);
    else await setObserved(tx, org_id, robot_id, body.generation);
  });
  session.send({ type: "ack", seq: report.seq });
}

const reasonOf = (text: string | undefined): Reason | null =>
  (REASONS as readonly string[]).includes(text ?? "") ? (text as Reason) : null;

async function takeTarget(
  tx: Db,
  engine: Engine,
  session: Session,
  deployment: DeploymentRow | undefined,
  body: TargetReport,
): Promise<void> {
  const { org_id, robot_id } = session;
  const ignore = (why: string): void =>
    engine.log.info({ robot_id, target_id: body.target_id, attempt: body.attempt, status: body.status, why }, "report ignored");
  const [target] = deployment === undefined ? [] : await lockTargets(tx, org_id, [body.target_id]);
  // A robot speaks for itself only: a target of another robot or org is as good as none.
  if (deployment === undefined || target === undefined || target.robot_id !== robot_id || target.deployment_id !== deployment.id)
    return ignore("unknown_target");
  const verdict = afterReport(
    target,
    { status: body.status, attempt: body.attempt, reason: reasonOf(body.reason) },
    { cancel_requested: deployment.cancel_requested_at !== null },
  );
  if ("ignored" in verdict) return ignore(verdict.ignored);
  // Its files tell when a config is there, all of them: see takeConfig.
  if (target.kind === "config" && verdict.to === "applied") {
    const arrived = await configArrived(tx, target);
    if (arrived === undefined) return ignore("files_missing");
    return move(tx, engine, deployment, target, verdict, robot_id, arrived);
  }
  await move(tx, engine, deployment, target, verdict, robot_id);
  if (body.message !== undefined && isTerminal(verdict.to))
    engine.log.info({ robot_id, target_id: target.id, status: verdict.to, detail: body.message }, "target ended");
}

async function move(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  target: TargetRow,
  verdict: Exclude<Verdict, { ignored: string }>,
  robot_id: string,
  data: Record<string, unknown> = {},
): Promise<void> {
  const now = engine.clock.now();
  const verify_seconds = verifySecondsOf(deployment.rollout);
  // Robots that are to stop have been given their time to acknowledge it.
  const deadline_at =
    deployment.cancel_requested_at !== null && isRevocable(verdict.to) ? target.deadline_at : deadlineOf(verdict.to, verify_seconds, now);
  const change: TargetChange = {
    target,
    to: verdict.to,
    reason: verdict.reason,
    deadline_at,
    not_before_at: verdict.to === "queued" ? retryAt(target.attempt, now) : null,
    data,
  };
  await moveTargets(tx, engine, deployment, [change], robotActor(robot_id));
  if (target.kind === "release" && FINISHING.includes(verdict.to)) await wantAgain(tx, engine, deployment, target, verify_seconds);
  if (verdict.to === "applied") {
    if (target.kind === "config") await releaseConfigs(tx, target.org_id, [target.id]);
    else
      await setAppApplied(
        tx,
        target.org_id,
        { robot_id, app: target.subject, release_id: target.release_id ?? "", target_id: target.id },
        now,
      );
  } else if (isTerminal(verdict.to)) await giveBack(tx, engine, target.org_id, [target], new Map([[target.id, verdict.to]]));
}

/** Statuses from which on the robot brings to its end what it began. */
const FINISHING: readonly TargetStatus[] = ["installing", "verifying", "applied"];

/** It was called off too late, the robot had begun to install: what it finishes is wanted again, lest it goes back afterwards. */
async function wantAgain(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  { org_id, robot_id, id, release_id, subject, attempt }: TargetRow,
  verify_seconds: number,
): Promise<void> {
  const [state] = await listAppStates(tx, org_id, [robot_id], subject);
  if (state === undefined || release_id === null || state.target_id !== null || state.last_target_id !== id) return;
  const now = engine.clock.now();
  await bumpGenerations(tx, org_id, [robot_id], now);
  await setDesiredApps(
    tx,
    org_id,
    subject,
    [{ robot_id, release_id, target_id: id, deployment_id: deployment.id, attempt, verify_seconds }],
    now,
  );
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids: [robot_id] }));
}

async function takeApp(tx: Db, engine: Engine, { org_id, robot_id }: Session, body: AppReport): Promise<void> {
  await setAppReported(
    tx,
    org_id,
    { robot_id, app: body.app, release_id: body.release_id, previous_release_id: body.previous_release_id, status: body.status },
    engine.clock.now(),
  );
}

/** A file arrived on the robot; with the last one its target is applied, also when the robot's own word for it was lost. */
async function takeConfig(
  tx: Db,
  engine: Engine,
  { org_id, robot_id }: Session,
  deployment: DeploymentRow | undefined,
  body: ConfigReport,
): Promise<void> {
  await setConfigReported(
    tx,
    org_id,
    { robot_id, namespace: body.namespace, version: body.version, sha256: body.sha256 },
    engine.clock.now(),
  );
  if (deployment === undefined) return;
  const target_id = await targetOfConfig(tx, org_id, robot_id, body.namespace);
  const [target] = target_id === undefined ? [] : await lockTargets(tx, org_id, [target_id]);
  if (target === undefined || target.deployment_id !== deployment.id || target.status === "queued" || isTerminal(target.status)) return;
  const arrived = await configArrived(tx, target);
  if (arrived !== undefined) await move(tx, engine, deployment, target, { to: "applied", reason: null }, robot_id, arrived);
}

/** Once every file that the target brought is on the robot: whether that changed anything there. */
async function configArrived(tx: Db, target: TargetRow): Promise<{ changed: boolean } | undefined> {
  const states = await listConfigStates(tx, target.org_id, target.id);
  if (states.length === 0 || states.some(({ state }) => state === "missing")) return undefined;
  return { changed: states.some(({ unchanged }) => !unchanged) };
}

async function deploymentOfConfig(db: Db, org_id: string, robot_id: string, body: ConfigReport): Promise<string | undefined> {
  const target_id = await targetOfConfig(db, org_id, robot_id, body.namespace);
  return target_id === undefined ? undefined : (await getTarget(db, org_id, target_id))?.deployment_id;
}

async function targetOfConfig(db: Db, org_id: string, robot_id: string, namespace: string): Promise<string | undefined> {
  return (await getConfigTarget(db, org_id, robot_id, namespace))?.target_id ?? undefined;
}

/** How far a download is: shown, and proof that the step is alive. */
export async function takeProgress(
  db: Db,
  engine: Engine,
  { org_id, robot_id }: Session,
  { target_id, attempt, bytes_done, bytes_total }: Progress,
): Promise<void> {
  await setProgress(db, org_id, {
    id: target_id,
    robot_id,
    attempt,
    progress: { bytes_done, bytes_total },
    deadline_at: deadlineOf("downloading", 0, engine.clock.now()),
  });
}
