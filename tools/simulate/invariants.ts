import { isTerminal } from "@roamfleet/protocol";
import type { Counts } from "../../packages/server/src/features/deployments/state.ts";
import { reportKey, type Robot } from "./robot.ts";
import type { DeploymentView, TargetView, View } from "./server.ts";

/** Thrown when a rule of deployments is violated. */
export class Broken extends Error {}

const holds = (condition: boolean, rule: string): void => {
  if (!condition) throw new Broken(rule);
};

const ACTIVE = new Set(["dispatched", "downloading", "staged", "installing", "verifying", "rolling_back"]);
const CHANGING = new Set(["installing", "verifying", "rolling_back"]);
const LADDER = ["pending", "queued", "dispatched", "downloading", "staged", "installing", "verifying", "rolling_back"];
/** A deployment with one of these statuses dispatches no target. */
const HELD = new Set(["scheduled", "paused", "rolling_back", "cancelling", "applied", "failed", "rolled_back", "cancelled"]);

const of = (view: View): { deployments: Map<string, DeploymentView>; targets: Map<string, TargetView> } => ({
  deployments: new Map(view.deployments.map((one) => [one.id, one])),
  targets: new Map(view.targets.map((one) => [one.id, one])),
});

/** Checks rules that hold at any moment. Throws Broken with the violated rule. */
export function checkMoment(view: View, robots: ReadonlyMap<string, Robot>, now: number): void {
  const { deployments } = of(view);
  const by_deployment = Map.groupBy(view.targets, ({ deployment_id }) => deployment_id);
  for (const deployment of view.deployments) checkDeployment(deployment, by_deployment.get(deployment.id) ?? []);
  for (const target of view.targets) {
    const deployment = deployments.get(target.deployment_id);
    if (deployment !== undefined) checkTarget(target, deployment, robots, now);
  }
  for (const [key, own] of Map.groupBy(view.targets, ({ robot_id, app }) => `${robot_id} ${app}`))
    // Count installing and reverting targets separately. A reverting target has the status rolling_back from its dispatch on, while the
    // server may still receive earlier reports of the robot about a cancelled deployment.
    for (const same_direction of Map.groupBy(own, ({ reverting }) => reverting).values())
      holds(same_direction.filter(({ status }) => CHANGING.has(status)).length <= 1, `two deployments change ${key} at the same time`);
  for (const { id, acked_seq } of view.robots) {
    const robot = robots.get(id);
    const first = robot?.outbox.waiting[0]?.seq;
    if (first !== undefined) holds(acked_seq >= first - 1, `robot ${id} dropped reports up to ${first - 1}, the server has ${acked_seq}`);
  }
}

function checkDeployment(deployment: DeploymentView, targets: readonly TargetView[]): void {
  const { id, counts, status, told } = deployment;
  const counted: Counts = { total: targets.length, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };
  for (const target of targets) counted[ACTIVE.has(target.status) ? "active" : (target.status as "pending")] += 1;
  for (const [name, count] of Object.entries(counted)) {
    const kept = counts[name as keyof Counts];
    const ahead = name === "total" && !deployment.whole && kept >= count;
    holds(kept === count || ahead, `${id}: counter ${name} says ${kept}, there are ${count}`);
  }
  holds(told.at(-1) === status, `${id} is ${status}, its last event says ${told.at(-1)}`);
  holds(deployment.event_count === deployment.last_event_seq, `${id}: event numbers have gaps`);
  // A deployment that rolls back stays open until all robots with its release have been notified.
  const open = targets.some((target) => !isTerminal(target.status)) || (status === "rolling_back" && counts.applied > 0);
  if (deployment.whole) holds(isTerminal(status) === !open, `${id} is ${status} while its targets are ${open ? "open" : "ended"}`);
  holds(told.filter((one) => isTerminal(one)).length <= 1, `${id} ended twice: ${told.join(", ")}`);
  holds(told.filter((one) => one === "scheduled").length <= 1, `${id} was scheduled twice`);
  const parallel = deployment.rollout.max_parallel;
  if (parallel !== undefined)
    holds(targets.filter((one) => ACTIVE.has(one.status) && !one.reverting).length <= parallel, `${id}: more than ${parallel} at once`);
  const [only] = targets;
  if (deployment.target_kind === "robot" && isTerminal(status) && only !== undefined)
    holds(status === only.status, `${id} of one robot is ${status}, its target ${only.status}`);
  if (status === "rolled_back" && deployment.rollback_requested)
    holds(counts.applied === 0, `${id} was rolled back and ${counts.applied} stayed`);
  holds(
    deployment.count_dispatched === targets.filter(({ attempt, status: of_target }) => attempt > 0 || of_target === "failed").length,
    `${id}: ${deployment.count_dispatched} counted as dispatched`,
  );
}

function checkTarget(target: TargetView, deployment: DeploymentView, robots: ReadonlyMap<string, Robot>, now: number): void {
  const { id, status, attempt } = target;
  if (ACTIVE.has(status)) holds(target.deadline_at !== null, `${id} is ${status} with no end in sight`);
  if (attempt > 0) {
    holds(target.wave <= deployment.wave, `${id} of wave ${target.wave} was dispatched in wave ${deployment.wave}`);
    holds(deployment.scheduled_at === null || deployment.scheduled_at <= now, `${id} was dispatched before its time`);
    holds(
      target.dispatches + (target.reverting ? 1 : 0) === attempt,
      `${id} is at attempt ${attempt}, and was dispatched ${target.dispatches} times`,
    );
  }
  if (status === "pending") holds(attempt === 0, `${id} is pending after it was dispatched`);
  const robot = robots.get(target.robot_id);
  // The server learns only from the robot that a release is applied, so the robot must have reported that for this attempt.
  if (robot !== undefined && status === "applied")
    // A robot reports the removal of an app as rolled_back.
    holds(
      robot.reported.has(reportKey(id, attempt, target.release_id === null ? "rolled_back" : "applied")),
      `${id} is applied at attempt ${attempt}, which its robot never reported`,
    );
}

/** Checks rules for the change from one moment to the next. */
export function checkStep(before: View, after: View, now: number): void {
  const is = of(after);
  for (const deployment of before.deployments) {
    const next = is.deployments.get(deployment.id);
    if (next === undefined) throw new Broken(`${deployment.id} has vanished`);
    if (isTerminal(deployment.status))
      holds(next.status === deployment.status && next.event_count === deployment.event_count, `${deployment.id} changed after its end`);
    // A deployment to one robot that cannot install the release starts and fails in one step, but must record the events of both.
    const starts = deployment.target_kind === "robot" && deployment.status === "scheduled" && next.status === "failed";
    if (starts)
      holds(
        next.told.slice(-2).join() === "queued,failed" && next.event_count === deployment.event_count + 3,
        `${deployment.id} failed at its start without an event of each step`,
      );
    const held = HELD.has(deployment.status) && HELD.has(next.status) && !starts;
    const expired = deployment.expires_at !== null && deployment.expires_at <= now;
    if (held || expired || (deployment.stopped && next.stopped))
      holds(
        next.count_dispatched === deployment.count_dispatched,
        `${deployment.id} is ${expired ? "expired" : next.status} and dispatched a target`,
      );
    holds(next.wave >= deployment.wave, `${deployment.id} went back to wave ${next.wave}`);
  }
  for (const target of before.targets) {
    const next = is.targets.get(target.id);
    if (next === undefined) throw new Broken(`${target.id} has vanished`);
    checkMove(target, next, is.deployments.get(target.deployment_id), after.targets);
  }
  for (const { id, acked_seq } of before.robots) {
    const next = after.robots.find((robot) => robot.id === id);
    holds((next?.acked_seq ?? acked_seq) >= acked_seq, `the server forgot reports of ${id}`);
  }
}

function checkMove(from: TargetView, to: TargetView, deployment: DeploymentView | undefined, all: readonly TargetView[]): void {
  const { id } = from;
  holds(to.attempt >= from.attempt && to.attempt <= from.attempt + 1, `${id} went from attempt ${from.attempt} to ${to.attempt}`);
  if (from.attempt > 0) holds(to.previous_release_id === from.previous_release_id, `${id} forgot what ran before it`);
  if (isTerminal(from.status)) {
    if (to.status === from.status && to.attempt === from.attempt) return;
    const reverted = from.status === "applied" && to.reverting;
    return holds(reverted, `${id} was ${from.status} and is ${to.status} of a deployment that is ${deployment?.status}`);
  }
  if (isTerminal(to.status)) {
    if (from.status === "pending" || from.status === "queued")
      holds(
        to.status === "cancelled" || to.status === "failed" || to.attempt > from.attempt,
        `${id} went from ${from.status} to ${to.status}`,
      );
    // In one step a target may be applied, have to roll back, and be cancelled because an older deployment, which also rolls back,
    // installs another release.
    const applied_meanwhile = to.reverting && !from.reverting;
    if (to.status === "cancelled")
      holds(!CHANGING.has(from.status) || to.reason === "robot_removed" || applied_meanwhile, `${id} was cancelled while ${from.status}`);
    // A robot that must roll back is superseded by any other dispatched deployment, even an older one.
    if (to.reason === "superseded" && to.status === "cancelled" && !to.reverting) {
      const newer = all.some(
        (one) =>
          one.robot_id === to.robot_id &&
          one.app === to.app &&
          one.deployment_id !== to.deployment_id &&
          one.order_number > to.order_number &&
          one.attempt > 0,
      );
      holds(newer, `${id} is superseded and nothing newer was dispatched`);
    }
    return;
  }
  if (to.status === "queued" || to.attempt > from.attempt || to.reverting) return;
  holds(LADDER.indexOf(to.status) >= LADDER.indexOf(from.status), `${id} went back from ${from.status} to ${to.status}`);
}

/** Checks that no step is past its deadline. To be called after the server has ended late steps. */
export function checkLate(view: View, now: number): void {
  const { deployments } = of(view);
  for (const { id, status, deadline_at, deployment_id } of view.targets) {
    const expires_at = deployments.get(deployment_id)?.expires_at ?? Infinity;
    if (ACTIVE.has(status) && expires_at > now) holds(deadline_at === null || deadline_at > now, `${id} is ${status} past its deadline`);
  }
}

/** Checks the rules that hold when all processes run again, no message is lost and everything is idle. */
export function checkEnd(view: View, robots: ReadonlyMap<string, Robot>): void {
  for (const { id, status } of view.deployments) holds(isTerminal(status), `${id} is ${status} for ever`);
  for (const { id, status } of view.targets) holds(isTerminal(status), `${id} is ${status} for ever`);
  for (const { id, removed, apps } of view.robots) {
    const robot = robots.get(id);
    if (removed || robot === undefined) continue;
    for (const { app, current_release_id, target_id } of apps) {
      holds(target_id === null, `${id} still waits for ${target_id}`);
      holds(current_release_id === robot.runs(app), `${id} runs ${robot.runs(app)} as ${app}, the server says ${current_release_id}`);
    }
  }
}
