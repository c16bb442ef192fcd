import { isTerminal, type Reason } from "@roamfleet/protocol";
import type { Rollout } from "@roamfleet/protocol/routes";
import {
  CANCEL_ACK_SECONDS,
  rollbackDeadline,
  verifySecondsOf,
  wholeRollout,
} from "../../../packages/server/src/features/deployments/policy.ts";
import { decideRollback } from "../../../packages/server/src/features/deployments/decide.ts";
import { acceptedByResume, hasPassed, isGateOpen } from "../../../packages/server/src/features/deployments/rollout/rules.ts";
import { countsOf, isRevocable } from "../../../packages/server/src/features/deployments/state.ts";
import type { Answer, Names, Operation } from "../server.ts";
import { remember, rivalsOf, supersede } from "./dispatch.ts";
import { advance, fanOut, type Member, waveFacts } from "./rollout.ts";
import { type Deployment, newDeployment, type Target } from "./rows.ts";
import type { Change, Tables } from "./tables.ts";

/** Performs an operation, with the same result as the routes. */
export function operate(tables: Tables, names: Names, operation: Operation): Answer {
  if (operation.type === "create") return create(tables, names, operation);
  if (operation.type === "remove_robot") return removeRobot(tables, names.robots[operation.robot] ?? "");
  const deployment = tables.deployments.get(operation.deployment_id);
  if (deployment === undefined) return "refused";
  switch (operation.type) {
    case "cancel":
      return cancel(tables, deployment, operation.mode);
    case "pause":
      return pause(tables, deployment);
    case "resume":
      return resume(tables, deployment);
    case "promote":
      return promote(tables, deployment);
    case "retry":
      return isTerminal(deployment.status) ? createFromEnded(tables, deployment, "retry") : "refused";
    case "rollback":
      return rollBack(tables, deployment);
  }
}

function create(
  tables: Tables,
  names: Names,
  { release, robot, fleet, scheduled_in_ms, rollout }: Extract<Operation, { type: "create" }>,
): Answer {
  const of = tables.releases.get(names.releases[release] ?? "");
  const robot_id = robot === null ? null : (names.robots[robot] ?? "");
  if (of === undefined || (robot_id !== null && tables.robots.get(robot_id)?.decommissioned === true)) return "refused";
  const held = scheduled_in_ms !== null;
  const deployment = newDeployment(
    {
      id: tables.id("dep"),
      target_kind: robot === null ? "fleet" : "robot",
      robot_id,
      fleet_id: robot === null ? (names.fleets[fleet ?? 0] ?? "") : null,
      release_id: of.id,
      app: of.app,
      rollout,
      scheduled_at: held ? new Date(tables.now.getTime() + scheduled_in_ms) : null,
      status: held ? "scheduled" : "queued",
      order_number: tables.drawOrderNumber(),
    },
    tables.now,
  );
  tables.deployments.set(deployment.id, deployment);
  if (!held) begin(tables, deployment);
  return "done";
}

/** Starts a deployment: immediately, or at its scheduled time. */
export function begin(tables: Tables, deployment: Deployment): void {
  fanOut(tables, deployment, membersOf(tables, deployment));
  if (tables.plant === "superseding_at_creation")
    for (const target of tables.targetsOf(deployment.id))
      supersede(
        tables,
        rivalsOf(tables, target)
          .filter(({ status }) => status === "queued" || status === "pending")
          .map(({ id }) => id),
      );
}

const membersOf = (tables: Tables, { robot_id, fleet_id, release_id }: Deployment): Member[] =>
  [...tables.robots.values()]
    .filter((robot) => (robot_id === null ? robot.fleet_id === fleet_id && !robot.decommissioned : robot.id === robot_id))
    .map(({ id }) => ({ robot_id: id, release_id }));

function cancel(tables: Tables, deployment: Deployment, mode: "finish" | "rollback"): Answer {
  if (isTerminal(deployment.status)) return "refused";
  if (deployment.cancel_requested_at !== null && (mode === "finish" || deployment.cancel_mode === mode)) return "done";
  deployment.cancel_requested_at ??= tables.now;
  deployment.cancel_mode = mode;
  if (deployment.status === "cancelling" || deployment.status === "rolling_back") return "done";
  if (deployment.status === "scheduled") {
    tables.say(deployment, "cancelled", "user_cancelled");
    return "done";
  }
  tables.say(deployment, "cancelling", "user_cancelled");
  callOff(tables, deployment, "user_cancelled");
  return "done";
}

/** Cancels targets that are not dispatched yet. Notifies robots that have not started to install, so that they stop. */
export function callOff(tables: Tables, deployment: Deployment, reason: Reason): void {
  const own = tables.targetsOf(deployment.id);
  const revocable = own.filter(({ status }) => isRevocable(status));
  const waiting = own.filter(({ status }) => status === "pending" || status === "queued");
  tables.revertDesiredState([...revocable, ...waiting.filter(({ attempt }) => attempt > 0)]);
  const stopped_by = new Date(tables.now.getTime() + CANCEL_ACK_SECONDS * 1_000);
  tables.version += 1;
  for (const target of revocable) if (target.deadline_at === null || target.deadline_at > stopped_by) target.deadline_at = stopped_by;
  tables.move(
    deployment,
    waiting.map((target) => ({ target: { ...target }, to: "cancelled", reason })),
  );
}

function pause(tables: Tables, deployment: Deployment): Answer {
  if (deployment.status === "paused") return "done";
  if (deployment.status !== "queued" && deployment.status !== "in_progress") return "refused";
  if (deployment.stop_requested_at !== null) return "refused";
  deployment.paused_at = tables.now;
  tables.say(deployment, "paused", null);
  return "done";
}

function resume(tables: Tables, deployment: Deployment): Answer {
  if (deployment.status !== "paused") return "refused";
  deployment.paused_at = null;
  const tally = { ...countsOf(deployment), dispatched: deployment.count_dispatched };
  deployment.failures_accepted = acceptedByResume(tally, wholeRollout(deployment.rollout), deployment.failures_accepted);
  tables.say(deployment, deployment.count_dispatched > 0 ? "in_progress" : "queued", null);
  advance(tables, deployment);
  return "done";
}

function promote(tables: Tables, deployment: Deployment): Answer {
  const { status, rollout, fan_out_done_at } = deployment;
  if (isTerminal(status) || rollout.waves === undefined || fan_out_done_at === null) return "refused";
  if (status !== "queued" && status !== "in_progress") return "refused";
  if (deployment.stop_requested_at !== null) return "refused";
  const facts = waveFacts(tables, deployment);
  const out_of = isGateOpen(facts) ? facts.wave : facts.wave - 1;
  if (out_of === facts.wave && (facts.wave + 1 >= facts.wave_count || !hasPassed(facts))) return "refused";
  deployment.promoted_wave = out_of;
  advance(tables, deployment);
  return "done";
}

function rollBack(tables: Tables, deployment: Deployment): Answer {
  if (isTerminal(deployment.status)) return createFromEnded(tables, deployment, "rollback");
  if (deployment.status === "scheduled" || deployment.status === "cancelling") return "refused";
  if (deployment.status === "rolling_back") return "done";
  deployment.rollback_requested_at = tables.now;
  tables.say(deployment, "rolling_back", "rollback_requested");
  rollBackOpen(tables, deployment);
  return "done";
}

/** Continues a rollback: cancels queued targets and rolls back robots with the release. */
export function rollBackOpen(tables: Tables, deployment: Deployment): void {
  callOff(tables, deployment, "rollback_requested");
  rollBackRobots(
    tables,
    deployment,
    tables.targetsOf(deployment.id).filter(({ status }) => status === "applied"),
  );
  tables.endIfOver(deployment);
}

export function rollBackRobots(tables: Tables, deployment: Deployment, targets: readonly Target[]): void {
  const verify_seconds = verifySecondsOf(deployment.rollout);
  const over: Change[] = [];
  const steps = targets.map((target): Change => {
    const robot = tables.robots.get(target.robot_id);
    const app = tables.appOf(target.robot_id, target.subject);
    const decision = decideRollback({ target, robot, app, previous_exists: true });
    const attempt = target.attempt + 1;
    if ("go" in decision) {
      Object.assign(app, {
        desired_release_id: target.previous_release_id,
        target_id: target.id,
        deployment_id: deployment.id,
        attempt,
        verify_seconds,
      });
      remember(app, deployment, target);
      tables.bump(target.robot_id);
    } else
      over.push({
        target: { ...target, status: "rolling_back", attempt, reverting: true },
        to: decision.end,
        reason: decision.reason,
      });
    return {
      target: { ...target },
      to: "rolling_back",
      reason: "rollback_requested",
      attempt,
      reverting: true,
      deadline_at:
        "go" in decision ? (robot?.online === true ? rollbackDeadline(verify_seconds, tables.now) : deployment.expires_at) : null,
    };
  });
  tables.move(deployment, steps);
  tables.move(deployment, over);
}

function createFromEnded(tables: Tables, ended: Deployment, as: "retry" | "rollback"): Answer {
  const members = tables.targetsOf(ended.id).filter(({ robot_id, status, subject, release_id }) => {
    const robot = tables.robots.get(robot_id);
    if (robot === undefined || robot.decommissioned || (ended.fleet_id !== null && robot.fleet_id !== ended.fleet_id)) return false;
    if (as === "retry") return status === "failed" || status === "rolled_back";
    const app = robot.apps.get(subject);
    return status === "applied" && app?.target_id == null && (app?.current_release_id ?? null) === release_id;
  });
  if (members.length === 0) return "refused";
  const { expires_at: _, ...again } = ended.rollout;
  const rollout: Rollout =
    as === "retry" ? again : ended.rollout.verify_seconds === undefined ? {} : { verify_seconds: ended.rollout.verify_seconds };
  const deployment = newDeployment(
    {
      id: tables.id("dep"),
      target_kind: ended.target_kind,
      robot_id: ended.robot_id,
      fleet_id: ended.fleet_id,
      release_id: ended.release_id,
      app: ended.app,
      rollout,
      scheduled_at: null,
      status: "queued",
      order_number: tables.drawOrderNumber(),
      retry_of: as === "retry" ? ended.id : null,
      rollback_of: as === "rollback" ? ended.id : null,
    },
    tables.now,
  );
  tables.deployments.set(deployment.id, deployment);
  fanOut(
    tables,
    deployment,
    members.map(({ robot_id, release_id, previous_release_id }) => ({
      robot_id,
      release_id: as === "retry" ? release_id : previous_release_id,
    })),
  );
  return "done";
}

function removeRobot(tables: Tables, robot_id: string): Answer {
  const robot = tables.robots.get(robot_id);
  if (robot === undefined) return "refused";
  robot.decommissioned = true;
  robot.online = false;
  for (const target of tables.targets.values()) {
    const deployment = tables.deployments.get(target.deployment_id);
    if (target.robot_id !== robot_id || isTerminal(target.status) || deployment === undefined) continue;
    tables.move(deployment, [{ target: { ...target }, to: "cancelled", reason: "robot_removed" }]);
  }
  return "done";
}
