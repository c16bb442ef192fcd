import { type Condition, conditionsOf } from "../../../packages/server/src/features/deployments/explain/conditions.ts";
import { isActive } from "../../../packages/server/src/features/deployments/state.ts";
import { dispatchFacts, groupOf } from "./dispatch.ts";
import { waveFacts } from "./rollout.ts";
import type { Tables } from "./tables.ts";

/** Explains a target by the server's conditions, with facts from the rows in memory. */
export function explain(tables: Tables, target_id: string): Condition[] {
  const target = tables.targets.get(target_id);
  const deployment = tables.deployments.get(target?.deployment_id ?? "");
  const robot = tables.robots.get(target?.robot_id ?? "");
  if (target === undefined || deployment === undefined || robot === undefined) throw new Error(`there is no target ${target_id}`);
  return conditionsOf(
    {
      robot: { id: robot.id, fleet_id: robot.fleet_id, last_seen_at: null, quarantined: false, arch: null },
      deployment,
      target,
      release: { tag: target.release_id ?? "", arch: null },
      dispatch: dispatchFacts(tables, deployment, target),
      newer_deployment_id: null,
      wave: deployment.rollout.waves === undefined ? undefined : waveFacts(tables, deployment),
      group: { ...groupOf(tables, deployment), robot_unavailable: isActive(target.status) || !robot.online },
      detail: null,
    },
    tables.now,
  );
}
