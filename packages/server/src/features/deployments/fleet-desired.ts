import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { setFleetConfig, setFleetDesired } from "../fleets/index.ts";
import { HINT_FOLLOW } from "./follow-hint.ts";
import { listReleases } from "./store/deployments.ts";
import { commonestApplied } from "./store/follow.ts";
import type { DeploymentRow } from "./store/rows.ts";

/** A deployment to a fleet ended `applied`: what it brought is what the fleet has, for robots that come later. */
export async function keepFleetDesired(tx: Db, engine: Pick<Plane, "clock" | "bus">, deployment: DeploymentRow): Promise<void> {
  const { org_id, id, fleet_id, kind, rollback_of } = deployment;
  if (fleet_id === null || deployment.status !== "applied") return;
  const now = engine.clock.now();
  const began_at = deployment.fan_out_at ?? now;
  const fleet = { org_id, id: fleet_id };
  tx.afterCommit(() => engine.bus.publish(HINT_FOLLOW, null));
  if (kind === "config") return void (await setFleetConfig(tx, fleet, id, began_at, now));
  // A rollback brings each robot its own release: the fleet has that of most, or none.
  const release_id = rollback_of === null ? deployment.release_id : await commonestApplied(tx, org_id, id);
  const [release] = release_id === null ? [] : await listReleases(tx, org_id, [release_id]);
  const desired = release === undefined ? null : { id: release.id, tag: release.tag, deployment_id: id };
  await setFleetDesired(tx, fleet, deployment.app ?? "main", desired, began_at, now);
}
