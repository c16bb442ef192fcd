import type { Source } from "./store/rollback.ts";
import type { DeploymentRow } from "./store/rows.ts";

/** Returns the ended deployment, and which of its targets, that this one repeats or reverts; undefined: it is for a robot or fleet. */
export function sourceOf({
  retry_of,
  rollback_of,
  fleet_id,
}: Pick<DeploymentRow, "retry_of" | "rollback_of" | "fleet_id">): Source | undefined {
  if (retry_of !== null) return { deployment_id: retry_of, as: "retry", fleet_id };
  return rollback_of === null ? undefined : { deployment_id: rollback_of, as: "rollback", fleet_id };
}
