import { decide, type Decision, type DispatchFacts } from "../../../packages/server/src/features/deployments/decide.ts";
import { deadlineOf, verifySecondsOf, wholeRollout } from "../../../packages/server/src/features/deployments/policy.ts";
import { type Group, roomOf } from "../../../packages/server/src/features/deployments/rollout/rules.ts";
import { isLimited } from "../../../packages/server/src/features/deployments/dispatch/slots.ts";
import { isActive, mayDispatch } from "../../../packages/server/src/features/deployments/state.ts";
import { isTerminal } from "@roamfleet/protocol";
import type { App, Deployment, Target } from "./rows.ts";
import type { Change, Tables } from "./tables.ts";

type Decided = { target: Target; decision: Decision };

/** Returns the targets that can be dispatched, by the same conditions as the server's claim query. */
export const claimable = (tables: Tables): Target[] =>
  [...tables.targets.values()].filter(({ status, waiting_for, not_before_at, deployment_id }) => {
    const deployment = tables.deployments.get(deployment_id);
    return (
      status === "queued" &&
      waiting_for === null &&
      (not_before_at === null || not_before_at <= tables.now) &&
      deployment?.fan_out_done_at != null &&
      mayDispatch(deployment, tables.now)
    );
  });

/** Dispatches targets by deployment, the newest first. */
export function dispatch(tables: Tables, found: readonly Target[]): void {
  const by_deployment = Map.groupBy(found, ({ deployment_id }) => deployment_id);
  const deployments = [...by_deployment.keys()].flatMap((id) => tables.deployments.get(id) ?? []);
  for (const deployment of deployments.toSorted((a, b) => b.order_number - a.order_number))
    dispatchOf(tables, deployment, by_deployment.get(deployment.id) ?? []);
}

function dispatchOf(tables: Tables, deployment: Deployment, found: readonly Target[]): void {
  const unchecked = tables.plant === "no_compare_and_set" || tables.plant === "double_dispatch";
  if (!unchecked && !mayDispatch(deployment, tables.now)) return;
  const targets = unchecked ? found : found.filter(({ id }) => tables.targets.get(id)?.status === "queued");
  const decided = limitSlots(
    tables,
    deployment,
    targets.map((target) => ({ target, decision: decide(dispatchFacts(tables, deployment, target)) })),
  );
  const changes: Change[] = [];
  let refused = false;
  for (const { target, decision } of decided) {
    if ("wait" in decision) {
      const row = tables.targets.get(target.id);
      if (row?.status === "queued") row.waiting_for = decision.wait;
      refused ||= decision.wait === "slot";
    } else if ("end" in decision) {
      if (target.attempt > 0) tables.revertDesiredState([target]);
      changes.push({ target, to: decision.end, reason: decision.reason });
    } else {
      supersede(tables, decision.supersede);
      changes.push(handOver(tables, deployment, target));
    }
  }
  tables.move(deployment, changes);
  if (mayDispatch(deployment, tables.now) && !refused) wakeSlots(tables, deployment);
}

/** Returns the facts from which dispatch decides about a target. */
export function dispatchFacts(tables: Tables, { order_number }: Deployment, target: Target): DispatchFacts {
  const robot = tables.robots.get(target.robot_id);
  const release = target.release_id === null ? undefined : tables.releases.get(target.release_id);
  return {
    order_number,
    robot: robot && { online: robot.online, decommissioned: robot.decommissioned, kinds: ["app_bundle"] },
    release: release && { kind: release.kind, artifact_state: "stored" },
    rivals: rivalsOf(tables, target).map((rival) => ({ ...rival, order_number: tables.orderNumberOf(rival.deployment_id) })),
    last_order_number: robot?.apps.get(target.subject)?.last_order_number ?? 0,
  };
}

/** Open targets of other deployments for the same robot and app. */
export const rivalsOf = (tables: Tables, { deployment_id, robot_id, subject }: Target): Target[] =>
  [...tables.targets.values()].filter(
    (other) =>
      other.robot_id === robot_id && other.subject === subject && other.deployment_id !== deployment_id && !isTerminal(other.status),
  );

export function supersede(tables: Tables, ids: readonly string[]): void {
  for (const id of ids) {
    const target = tables.targets.get(id);
    const deployment = tables.deployments.get(target?.deployment_id ?? "");
    if (target !== undefined && deployment !== undefined)
      tables.move(deployment, [{ target: { ...target }, to: "cancelled", reason: "superseded" }]);
  }
}

/** Records the newest dispatched deployment of the robot and app, and its target. */
export function remember(app: App, { order_number }: Deployment, { id }: Target): void {
  if (order_number < app.last_order_number) return;
  app.last_order_number = order_number;
  app.last_target_id = id;
}

function handOver(tables: Tables, deployment: Deployment, target: Target): Change {
  const app = tables.appOf(target.robot_id, target.subject);
  const verify_seconds = verifySecondsOf(deployment.rollout);
  const attempt = target.attempt + 1;
  remember(app, deployment, target);
  Object.assign(app, {
    desired_release_id: target.release_id,
    target_id: target.id,
    deployment_id: deployment.id,
    attempt,
    verify_seconds,
  });
  tables.bump(target.robot_id);
  return {
    target: { ...target },
    to: "dispatched",
    reason: null,
    attempt,
    deadline_at: deadlineOf("dispatched", verify_seconds, tables.now),
    previous_release_id: target.attempt > 0 ? target.previous_release_id : app.current_release_id,
  };
}

function limitSlots(tables: Tables, deployment: Deployment, decided: readonly Decided[]): Decided[] {
  if (!isLimited(deployment)) return [...decided];
  const { max_parallel } = wholeRollout(deployment.rollout);
  let slots = (max_parallel ?? Infinity) - deployment.count_active;
  const groups = groupsOf(tables, deployment);
  const going = decided
    .filter(({ decision }) => "dispatch" in decision)
    .toSorted(({ target: a }, { target: b }) => a.wave - b.wave || (a.id < b.id ? -1 : 1));
  const refused = new Set<string>();
  for (const { target } of going) {
    if (slots > 0 && groups.take(target)) slots -= 1;
    else refused.add(target.id);
  }
  return decided.map(({ target, decision }) => ({ target, decision: refused.has(target.id) ? { wait: "slot" } : decision }));
}

const isAway = (tables: Tables, target: Target): boolean => isActive(target.status) || tables.robots.get(target.robot_id)?.online !== true;

/**
 * Counts the robots of a deployment that are in service as one group, because every fleet of a schedule has a separate site.
 */
export function groupOf(tables: Tables, deployment: Deployment): Group {
  const all = tables.targetsOf(deployment.id).filter(({ robot_id }) => tables.robots.get(robot_id)?.decommissioned === false);
  return { size: all.length, unavailable: all.filter((target) => isAway(tables, target)).length };
}

function groupsOf(tables: Tables, deployment: Deployment): { take: (target: Target) => boolean; room: () => number } {
  const { max_unavailable } = wholeRollout(deployment.rollout);
  if (max_unavailable === null) return { take: () => true, room: () => Infinity };
  const group = groupOf(tables, deployment);
  return {
    take: (target) => {
      const away = isAway(tables, target);
      if (roomOf(group, max_unavailable) + (away ? 1 : 0) <= 0) return false;
      if (!away) group.unavailable += 1;
      return true;
    },
    room: () => Math.max(0, roomOf(group, max_unavailable)),
  };
}

/** Wakes targets that wait for a slot, up to the number of free slots. Offline robots do not count against the limit of their group. */
export function wakeSlots(tables: Tables, deployment: Deployment): number {
  if (!isLimited(deployment)) return 0;
  const { max_parallel, max_unavailable } = wholeRollout(deployment.rollout);
  const slots = (max_parallel ?? Infinity) - deployment.count_active;
  if (slots <= 0) return 0;
  const held = tables
    .targetsOf(deployment.id)
    .filter(({ status, waiting_for }) => status === "queued" && waiting_for === "slot")
    .toSorted((a, b) => a.wave - b.wave || (a.id < b.id ? -1 : 1));
  const away = max_unavailable === null ? [] : held.filter((target) => isAway(tables, target));
  const room = groupsOf(tables, deployment).room();
  const others = max_unavailable === null ? held : held.filter((target) => !isAway(tables, target)).slice(0, room);
  const woken = [...away, ...others].slice(0, slots);
  for (const target of woken) target.waiting_for = null;
  return woken.length;
}
