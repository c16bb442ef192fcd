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
 * Whether every robot was sent the change. A deployment also ends as failed because single robots failed: these are shown as failed, and the
 * change is not undeployed. A deployment that no robot applied or that skipped robots leaves the change undeployed.
 */
const wasSent = ({ status, counts }: Deployed): boolean => !UNDONE.has(status) || (counts.applied > 0 && counts.cancelled === 0);

/**
 * Fleets that a change of a value applies to and that have had no config deployment since. `complete_since_ms`: no deployment after this
 * time is missing among `deployments`; of an older change nothing is known, so it counts as deployed. Values of single robots apply to
 * no fleet.
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
