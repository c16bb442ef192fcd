import { AGENT_APP, isTerminal } from "@roamfleet/protocol";
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
 * Clears the fleet's desired release for the deployment's app, because the deployment is rolled back or was stopped after too many
 * failures. Does so only if the fleet's desired release is the deployment's release, or came from this deployment or a retry of it. Until a
 * later deployment ends `applied`, robots that enroll get no release. A paused deployment waits for a user, and does not call this.
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
  // Cancels the targets of robots that follow the fleet and have not begun to install the release.
  await noteAuthorityChange(tx, engine, org_id, "fleet", [fleet_id]);
}

/**
 * Records the release or config of a fleet deployment that ended `applied`, so that robots that join later get it. Does nothing if the
 * fleet already has the result of a newer deployment; `countsSince` decides which is newer.
 *
 * A version of the agent is never recorded: it is for one architecture, and a robot that joins later may have a newer agent.
 */
export async function keepFleetDesired(tx: Db, engine: Pick<Plane, "clock" | "bus">, deployment: DeploymentRow): Promise<void> {
  const { org_id, id, fleet_id, kind } = deployment;
  if (fleet_id === null || deployment.status !== "applied" || deployment.app === AGENT_APP) return;
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
  // Robots that are being updated to the fleet's previous release get the new release instead.
  if (has.desired[app] !== undefined && has.desired[app].id !== desired?.id)
    await noteAuthorityChange(tx, engine, org_id, "fleet", [fleet_id]);
}

/**
 * Checks a robot against its fleet again after its automatic deployment ended. The fleet may have a different release by now, and no other
 * automatic deployment was created meanwhile. If the deployment expired, the check waits until the robot connects again.
 */
export function followAgain(tx: Db, engine: Pick<Plane, "bus">, { org_id, robot_id, authority, status, reason }: DeploymentRow): void {
  if (robot_id === null || authority?.fleet_id === undefined || !isTerminal(status) || reason === "expired") return;
  tx.afterCommit(() => connectionSyncOf(engine).add(org_id, robot_id));
}

/**
 * Returns the release that a deployment gave the fleet, or null if it gave none. In a rollback, or in a retry of a rollback, each robot
 * gets its own release, and `release_id` is only a placeholder. Therefore the result for a retry or rollback is the release that most
 * robots got.
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
 * Returns the order number that decides how new a deployment's result is for its fleet. For a retry or rollback, this is the order number
 * of the original deployment. Otherwise a retry on the few robots where an old deployment failed would override a later deployment to the
 * whole fleet.
 */
export function countsSince(origins: ReadonlyMap<string, Origin>, id: string): number | null {
  const own = origins.get(id);
  const source = own?.retry_of ?? own?.rollback_of ?? null;
  return (source === null ? null : countsSince(origins, source)) ?? own?.order_number ?? null;
}

/** Returns the id of the deployment, followed by the ids of its chain of retried deployments, newest first. */
export function retryChain(origins: ReadonlyMap<string, Origin>, id: string): string[] {
  const source = origins.get(id)?.retry_of ?? null;
  return source === null ? [id] : [id, ...retryChain(origins, source)];
}

/** Hint: a fleet got a different release or config, or automatic updates of its robots were enabled again. Its members must be checked. */
export const HINT_FOLLOW = "rf.deployments.follow";
