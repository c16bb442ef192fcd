import { isTerminal } from "@roamfleet/protocol";
import type { Chance } from "./chance.ts";
import { anyRollout } from "./scene.ts";
import type { Names, Operation, View } from "./server.ts";

const DEPLOYMENTS_MAX = 5;
const RETRIES_MAX = 8;
const SECOND_MS = 1_000;
/** Operations on an ended deployment. Most are refused. */
const AFTER_THE_END = ["cancel", "pause", "resume", "promote", "retry", "rollback"] as const;

export interface Situation {
  chance: Chance;
  now: Date;
  names: Names;
  view: View;
  /** Weight of removing a robot. */
  removes: number;
}

/** Returns a random operation, which may be refused. */
export function anyOperation(situation: Situation): Operation {
  const { chance, view, removes } = situation;
  const { deployments } = view;
  if (deployments.length === 0) return anyDeployment(situation);
  // The status is chosen first, because deployments are in short-lived statuses too rarely.
  const status = chance.of([...new Set(deployments.map((one) => one.status))]);
  const deployment = chance.of(deployments.filter((one) => one.status === status));
  if (deployments.length < DEPLOYMENTS_MAX && chance.happens(0.45)) return anyDeployment(situation);
  const deployment_id = deployment.id;
  if (isTerminal(deployment.status)) return { type: chance.of(AFTER_THE_END), deployment_id, mode: "finish" };
  return chance.weighted<Operation>([
    [3, { type: "cancel", deployment_id, mode: chance.of(["finish", "rollback"]) }],
    [3, { type: "pause", deployment_id }],
    [4, { type: "resume", deployment_id }],
    [5, { type: "promote", deployment_id }],
    [4, { type: "rollback", deployment_id }],
    [deployments.length < RETRIES_MAX ? 4 : 0, { type: "retry", deployment_id }],
    [removes, { type: "remove_robot", robot: anyRobot(situation) }],
  ]);
}

/** Prefers a robot with a deployment in progress. */
function anyRobot({ chance, names, view }: Situation): number {
  const busy = view.targets.filter(({ status }) => status === "installing" || status === "verifying");
  if (busy.length > 0 && chance.happens(0.7)) return names.robots.indexOf(chance.of(busy).robot_id);
  return chance.below(names.robots.length);
}

function anyDeployment({ chance, names, now }: Situation): Operation {
  const to_robot = chance.happens(0.3);
  const expires_at = new Date(now.getTime() + chance.of([60, 600, 6_000]) * SECOND_MS);
  return {
    type: "create",
    release: chance.below(names.releases.length),
    robot: to_robot ? chance.below(names.robots.length) : null,
    fleet: to_robot ? null : chance.below(names.fleets.length),
    scheduled_in_ms: chance.happens(0.15) ? chance.of([1, 60, 600]) * SECOND_MS : null,
    rollout: to_robot ? { verify_seconds: chance.of([0, 30]) } : anyRollout(chance, expires_at),
  };
}
