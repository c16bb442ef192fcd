import { isTerminal } from "@roamfleet/protocol";
import type { Plane } from "../../../context.ts";
import type { Db } from "../../../kernel/db.ts";
import { announce } from "../../events/index.ts";
import { lockFleetDesired, setFleetConfig, setFleetDesired } from "../../fleets/index.ts";
import { connectionSyncOf } from "./connection-sync.ts";
import { noteAuthorityChange } from "../cancel/note-authority-change.ts";
import { listReleases } from "../store/deployments.ts";
import { commonestApplied, listOrigins } from "../store/follow.ts";
import type { DeploymentRow } from "../store/rows.ts";

/**
 * Makes the fleet follow nothing for the deployment's app: the deployment is rolled back, or stopped because too many robots failed. This
 * applies to its release, from whichever deployment it came, and to what a retry of it deployed. Until a deployment ends `applied`, robots
 * that enroll get nothing. A paused deployment waits for a person, and changes nothing here.
 */
export async function stopFollowing(tx: Db, engine: Pick<Plane, "clock" | "bus">, deployment: DeploymentRow): Promise<void> {
  const { org_id, id, fleet_id, release_id } = deployment;
  if (fleet_id === null) return;
  const app = deployment.app ?? "main";
  const has = (await lockFleetDesired(tx, org_id, fleet_id))?.desired[app];
  if (has === undefined) return;
  const origins = new Map((await listOrigins(tx, org_id, [has.deployment_id])).map((one) => [one.id, one]));
  if (has.id !== release_id && !retryChain(origins, has.deployment_id).includes(id)) return;
  announce(tx, engine, org_id, { kind: "fleet", id: fleet_id, change: "updated" });
  await setFleetDesired(tx, { org_id, id: fleet_id }, app, null, engine.clock.now());
  // Cancels what was dispatched to robots that follow the fleet and have not begun to install it.
  await noteAuthorityChange(tx, engine, org_id, "fleet", [fleet_id]);
}

/**
 * Records what a deployment to a fleet that ended `applied` deployed, for robots that join later. Does nothing if the fleet already has the
 * result of a deployment that counts as newer.
 */
export async function keepFleetDesired(tx: Db, engine: Pick<Plane, "clock" | "bus">, deployment: DeploymentRow): Promise<void> {
  const { org_id, id, fleet_id, kind } = deployment;
  if (fleet_id === null || deployment.status !== "applied") return;
  const has = await lockFleetDesired(tx, org_id, fleet_id);
  if (has === undefined) return;
  const [now, app, fleet] = [engine.clock.now(), deployment.app ?? "main", { org_id, id: fleet_id }];
  const holder = kind === "config" ? has.config_revision : (has.desired[app]?.deployment_id ?? null);
  const origins = new Map((await listOrigins(tx, org_id, holder === null ? [id] : [id, holder])).map((one) => [one.id, one]));
  const since = countsSince(origins, id) ?? deployment.order_number;
  const held_since = holder === null ? null : countsSince(origins, holder);
  if (held_since !== null && held_since > since) return;
  announce(tx, engine, org_id, { kind: "fleet", id: fleet_id, change: "updated" });
  tx.afterCommit(() => engine.bus.publish(HINT_FOLLOW, null));
  if (kind === "config") return void (await setFleetConfig(tx, fleet, id, now));
  const release_id = await releaseFor(tx, deployment, origins);
  const [release] = release_id === null ? [] : await listReleases(tx, org_id, [release_id]);
  const desired = release === undefined ? null : { id: release.id, tag: release.tag, deployment_id: id };
  await setFleetDesired(tx, fleet, app, desired, now);
  // Robots that are being updated to what the fleet had before get the new release instead.
  if (has.desired[app] !== undefined && has.desired[app].id !== desired?.id)
    await noteAuthorityChange(tx, engine, org_id, "fleet", [fleet_id]);
}

/**
 * Checks a robot again after its automatic deployment ended: the fleet may have a different release by now, and nothing was deployed
 * automatically while that one was open. After an expired one it waits until the robot connects again.
 */
export function followAgain(tx: Db, engine: Pick<Plane, "bus">, { org_id, robot_id, authority, status, reason }: DeploymentRow): void {
  if (robot_id === null || authority?.fleet_id === undefined || !isTerminal(status) || reason === "expired") return;
  tx.afterCommit(() => connectionSyncOf(engine).add(org_id, robot_id));
}

/**
 * Returns the release that a deployment gave the fleet; null: none. A rollback, or a retry of one, gives each robot its own release, and
 * the deployment's release is a placeholder: then it is the release that most robots got.
 */
async function releaseFor(tx: Db, deployment: DeploymentRow, origins: ReadonlyMap<string, Origin>): Promise<string | null> {
  const { org_id, id, release_id, retry_of, rollback_of } = deployment;
  if (retry_of === null && rollback_of === null) return release_id;
  return commonestApplied(tx, org_id, retryChain(origins, id));
}

/** A deployment with the deployment that it retries or rolls back, if any, and its order number. */
export interface Origin {
  id: string;
  retry_of: string | null;
  rollback_of: string | null;
  order_number: number;
}

/**
 * Returns the order number from which a deployment counts for its fleet: for a retry or rollback, that of its source. Otherwise a retry for
 * the few robots on which an old deployment failed would override what the whole fleet got later.
 */
export function countsSince(origins: ReadonlyMap<string, Origin>, id: string): number | null {
  const own = origins.get(id);
  const source = own?.retry_of ?? own?.rollback_of ?? null;
  return (source === null ? null : countsSince(origins, source)) ?? own?.order_number ?? null;
}

/** Returns the deployment, the one that it retries, the one which that retries, and so on. */
export function retryChain(origins: ReadonlyMap<string, Origin>, id: string): string[] {
  const source = origins.get(id)?.retry_of ?? null;
  return source === null ? [id] : [id, ...retryChain(origins, source)];
}

/** A fleet has a different release or config, or follows again: its members must be checked. */
export const HINT_FOLLOW = "rf.deployments.follow";
