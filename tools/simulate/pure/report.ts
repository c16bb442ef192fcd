import { isTerminal, type Reason, REASONS } from "@roamfleet/protocol";
import type { Report, ReportBody } from "@roamfleet/protocol/link";
import { deadlineOf, retryAt, verifySecondsOf } from "../../../packages/server/src/features/deployments/policy.ts";
import {
  afterReport,
  cancelReason,
  isRevocable,
  requestsOf,
  taskOf,
  type Verdict,
} from "../../../packages/server/src/features/deployments/state.ts";
import { rollBackRobots } from "./operate.ts";
import type { Deployment, RobotRow, Target } from "./rows.ts";
import type { Tables } from "./tables.ts";

type TargetReport = Extract<ReportBody, { kind: "target" }>;

/** Applies a report once: its sequence number and its effect are stored atomically. */
export function takeReport(tables: Tables, robot: RobotRow, outbox_id: string, { seq, body }: Report): void {
  if (robot.outbox_id === outbox_id && robot.outbox_seq >= seq) return;
  robot.outbox_id = outbox_id;
  robot.outbox_seq = seq;
  if (body.kind === "app") {
    const app = tables.appOf(robot.id, body.app);
    app.current_release_id = body.release_id;
    app.previous_release_id = body.previous_release_id;
    if (app.target_id === null) app.desired_release_id = body.release_id;
  }
  if (body.kind === "target") takeTargetReport(tables, robot, body);
}

const reasonOf = (said: string | undefined): Reason | null =>
  (REASONS as readonly string[]).includes(said ?? "") ? (said as Reason) : null;

function takeTargetReport(tables: Tables, robot: RobotRow, body: TargetReport): void {
  const target = tables.targets.get(body.target_id);
  const deployment = tables.deployments.get(body.deployment_id);
  if (target === undefined || deployment === undefined || target.robot_id !== robot.id) return;
  const attempt = tables.plant === "attempt_ignored" ? target.attempt : body.attempt;
  // Planted fault: accept a late report for a target that has ended.
  const status = tables.plant === "late_report_accepted" && isTerminal(target.status) ? "dispatched" : target.status;
  const verdict = afterReport(
    { status, attempt: target.attempt, task: taskOf(target) },
    { status: body.status, attempt, reason: reasonOf(body.reason) },
    requestsOf(deployment),
  );
  if (!("ignored" in verdict)) follow(tables, deployment, target, verdict);
}

function follow(tables: Tables, deployment: Deployment, row: Target, verdict: Exclude<Verdict, { ignored: string }>): void {
  const target = { ...row };
  const { to } = verdict;
  const app = tables.appOf(target.robot_id, target.subject);
  if (verdict.reverts !== true) {
    const stopping = cancelReason(requestsOf(deployment)) !== null && isRevocable(to);
    tables.move(deployment, [
      {
        target,
        to,
        reason: verdict.reason,
        deadline_at: stopping ? target.deadline_at : deadlineOf(to, verifySecondsOf(deployment.rollout), tables.now),
        not_before_at: to === "queued" ? retryAt(target.attempt, tables.now) : null,
      },
    ]);
  }
  if (to === "installing" || to === "verifying" || to === "applied") wantAgain(tables, deployment, target);
  if (to === "applied" || verdict.reverts === true) runs(tables, target, target.release_id);
  else if (target.reverting && to === "rolled_back") runs(tables, target, target.previous_release_id);
  if (verdict.reverts === true) rollBackRobots(tables, deployment, [row]);
  if (isTerminal(to) && to !== "applied") tables.revertDesiredState([target]);
  void app;
}

/** Records that the robot runs the release. If nothing newer is in progress, that release also becomes the desired one. */
function runs(tables: Tables, { id, robot_id, subject }: Target, release_id: string | null): void {
  const app = tables.appOf(robot_id, subject);
  if (app.current_release_id !== release_id) app.previous_release_id = app.current_release_id;
  app.current_release_id = release_id;
  if (app.target_id === null || app.target_id === id) app.desired_release_id = release_id;
  if (app.target_id === id) {
    app.target_id = null;
    app.deployment_id = null;
  }
}

/** After a cancellation that came too late: the robot still installs the release, so make it desired again to prevent a rollback. */
function wantAgain(tables: Tables, deployment: Deployment, { id, robot_id, subject, release_id, attempt }: Target): void {
  const app = tables.appOf(robot_id, subject);
  if (app.target_id !== null || app.last_target_id !== id) return;
  Object.assign(app, {
    desired_release_id: release_id,
    target_id: id,
    deployment_id: deployment.id,
    attempt,
    verify_seconds: verifySecondsOf(deployment.rollout),
  });
  tables.bump(robot_id);
}
