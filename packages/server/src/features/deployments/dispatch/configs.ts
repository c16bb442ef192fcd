import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { effectiveFiles, isSealed, type RobotFiles } from "../../configs/index.ts";
import { revertDesiredState } from "../cancel/end-targets.ts";
import { deadlineOf } from "../policy.ts";
import {
  type ConfigFileChange,
  listConfigNamespaces,
  listConfigStates,
  listNewerNamespaces,
  releaseConfigs,
  setConfigOrders,
  setDesiredConfigs,
} from "../store/robot-state.ts";
import { ALL_NAMESPACES, type DeploymentRow, type TargetRow } from "../store/rows.ts";
import { setWaitingFor, type TargetChange } from "../store/targets.ts";
import { listUnapproved } from "../store/robots.ts";
import type { Engine } from "../transition.ts";

/**
 * Stores the config files of each robot as its desired files: those of the current values or, in a rollout with waves, of the values at the
 * start of the deployment. A target without files is `applied`. A target whose files violate a schema fails, and its robot keeps the files
 * that it has. If any file of a target contains secrets, the target waits until its robot is approved. Leaves out namespaces for which a
 * newer deployment was dispatched; a target with no other files is superseded. The caller has locked the robots' `robot_desired` rows.
 */
export async function writeDesiredConfigs(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
): Promise<TargetChange[]> {
  const { org_id, namespace, order_number, rollout } = deployment;
  // Later waves receive what earlier waves have tested.
  const as_of = rollout.waves === undefined ? null : order_number;
  const now = engine.clock.now();
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const always = await namespacesToKeep(tx, deployment, robot_ids);
  const newer = await newerNamespaces(tx, deployment, robot_ids);
  const by_robot = new Map(targets.map((target) => [target.robot_id, target]));
  const unapproved = new Set((await listUnapproved(tx, org_id, robot_ids)).map(({ id }) => id));
  const withheld: TargetRow[] = [];
  const changes: TargetChange[] = [];
  for await (const part of effectiveFiles(tx, engine, org_id, { robot_ids, namespace, always, as_of })) {
    const given = [...part].flatMap(([robot_id, all]): [TargetRow, RobotFiles][] => {
      const target = by_robot.get(robot_id);
      if (target === undefined) return [];
      const made = without(all, newer.get(robot_id));
      if (!unapproved.has(robot_id) || ![...made.files.values()].some(({ content }) => isSealed(content))) return [[target, made]];
      withheld.push(target);
      return [];
    });
    await setDesiredConfigs(
      tx,
      org_id,
      given.flatMap(([target, { files, refusal }]) => (refusal === null ? filesOf(files, deployment, target) : [])),
      now,
    );
    for (const [target, { files, refusal }] of given) {
      const attempt = target.attempt + 1;
      if (refusal !== null) changes.push({ target, to: "failed", reason: "incompatible", attempt, data: { detail: refusal } });
      else if (files.size === 0 && newer.has(target.robot_id)) changes.push({ target, to: "cancelled", reason: "superseded" });
      else if (files.size === 0) changes.push({ target, to: "applied", reason: "already_installed", attempt, data: { changed: false } });
      else changes.push({ target, to: "dispatched", reason: null, attempt, deadline_at: deadlineOf("dispatched", 0, now) });
    }
  }
  const dispatched = changes.flatMap((change) => (isHandedOut(change) ? [change.target.robot_id] : []));
  await setConfigOrders(tx, org_id, dispatched, namespace ?? ALL_NAMESPACES, deployment.order_number);
  const withheld_ids = withheld.map(({ id }) => id);
  await setWaitingFor(tx, org_id, withheld_ids, "approval");
  // The desired state of these robots may still contain an earlier attempt.
  await revertDesiredState(
    tx,
    engine,
    org_id,
    changes.flatMap((change) => (!isHandedOut(change) && change.target.attempt > 0 ? [change.target] : [])),
  );
  return changes;
}

/** Whether the files of the target are sent to its robot, or the robot needs no files. */
export const isHandedOut = ({ to }: TargetChange): boolean => to === "dispatched" || to === "applied";

/** Returns, for each robot, the namespaces for which a newer deployment was dispatched. Empty if this deployment is of one namespace. */
async function newerNamespaces(
  tx: Db,
  { org_id, namespace, order_number }: DeploymentRow,
  robot_ids: readonly string[],
): Promise<Map<string, Set<string>>> {
  if (namespace !== null) return new Map();
  const rows = Map.groupBy(await listNewerNamespaces(tx, org_id, robot_ids, order_number), ({ robot_id }) => robot_id);
  return new Map(Array.from(rows, ([robot_id, own]) => [robot_id, new Set(own.map((one) => one.namespace))]));
}

const without = (made: RobotFiles, namespaces: ReadonlySet<string> | undefined): RobotFiles =>
  namespaces === undefined ? made : { ...made, files: new Map([...made.files].filter(([namespace]) => !namespaces.has(namespace))) };

/**
 * Returns how targets of all namespaces change after deployments of one namespace have replaced some of their files. A target whose
 * remaining files are all on the robot is `applied`. A target with no remaining file is superseded. Other targets are unchanged.
 */
export async function afterReplacedFiles(
  tx: Db,
  org_id: string,
  replaced: readonly { target: TargetRow; actor: Actor }[],
): Promise<TargetChange[]> {
  if (replaced.length === 0) return [];
  const targets = replaced.map(({ target }) => target);
  const states = Map.groupBy(await listConfigStates(tx, org_id, targets), ({ target_id }) => target_id);
  const changes = replaced.flatMap(({ target, actor }): TargetChange[] => {
    const files = states.get(target.id) ?? [];
    if (files.length === 0) return [{ target, to: "cancelled", reason: "superseded", actor }];
    if (files.some(({ state }) => state === "missing")) return [];
    return [{ target, to: "applied", reason: null, data: { changed: files.some(({ unchanged }) => !unchanged) } }];
  });
  const applied = changes.flatMap(({ target, to }) => (to === "applied" ? [target] : []));
  if (applied.length > 0) await releaseConfigs(tx, org_id, applied);
  return changes;
}

/**
 * Returns the namespaces for which each robot must get a file even if there are no values. After the last value was deleted, an empty file
 * replaces the old one.
 */
async function namespacesToKeep(
  tx: Db,
  { org_id, namespace }: DeploymentRow,
  robot_ids: readonly string[],
): Promise<Map<string, string[]>> {
  if (namespace !== null) return new Map(robot_ids.map((robot_id) => [robot_id, [namespace]]));
  const had = Map.groupBy(await listConfigNamespaces(tx, org_id, robot_ids), ({ robot_id }) => robot_id);
  return new Map(Array.from(had, ([robot_id, rows]) => [robot_id, rows.map((row) => row.namespace)]));
}

const filesOf = (files: RobotFiles["files"], deployment: DeploymentRow, target: TargetRow): ConfigFileChange[] =>
  [...files].map(([namespace, { content, sha256 }]) => ({
    robot_id: target.robot_id,
    namespace,
    content,
    sha256,
    target_id: target.id,
    deployment_id: deployment.id,
    attempt: target.attempt + 1,
  }));
