import type { ConfigDeployment, ConfigEntry } from "@roamfleet/protocol/routes";

type Entry = Pick<ConfigEntry, "namespace" | "scope" | "scope_id" | "updated_at" | "removed_at">;
type Deployed = Pick<ConfigDeployment, "fleet_id" | "namespace" | "status" | "created_at"> & {
  counts: Pick<ConfigDeployment["counts"], "applied" | "cancelled">;
};
interface Fleet {
  id: string;
  site_id: string;
  robot_count: number;
}

const UNDONE: ReadonlySet<string> = new Set(["failed", "rolled_back", "cancelled"]);

/**
 * Whether every robot was sent the change. A deployment in which only single robots failed counts: those robots are shown as failed.
 * One that no robot applied or that skipped robots does not count.
 */
const wasSent = ({ status, counts }: Deployed): boolean => !UNDONE.has(status) || (counts.applied > 0 && counts.cancelled === 0);

/**
 * Returns the fleets that a changed value applies to and that had no config deployment since the change. `complete_since_ms`:
 * `deployments` is complete from this time; older changes are unknown and count as deployed. Values of robots apply to no fleet.
 */
export function pendingFleets<F extends Fleet>(
  { namespace, scope, scope_id, updated_at, removed_at }: Entry,
  fleets: readonly F[],
  deployments: readonly Deployed[],
  complete_since_ms: number,
): F[] {
  const changed_ms = Math.max(Date.parse(updated_at), removed_at === null ? 0 : Date.parse(removed_at));
  if (scope === "robot" || changed_ms < complete_since_ms) return [];
  const done = new Set(
    deployments
      .filter((one) => wasSent(one) && (one.namespace === null || one.namespace === namespace))
      .filter(({ created_at }) => Date.parse(created_at) >= changed_ms)
      .map(({ fleet_id }) => fleet_id),
  );
  return fleets.filter(
    ({ id, site_id, robot_count }) =>
      robot_count > 0 && !done.has(id) && (scope === "org" || (scope === "site" ? site_id === scope_id : id === scope_id)),
  );
}
