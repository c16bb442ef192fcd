import type { Db } from "../../../kernel/db.ts";
import { effectiveFiles, isSealed, type RobotFiles } from "../../configs/index.ts";
import { revertDesiredState } from "../cancel/end-targets.ts";
import { deadlineOf } from "../policy.ts";
import { type ConfigFileChange, listConfigNamespaces, setConfigOrders, setDesiredConfigs } from "../store/robot-state.ts";
import { ALL_NAMESPACES, type DeploymentRow, type TargetRow } from "../store/rows.ts";
import { setWaitingFor, type TargetChange } from "../store/targets.ts";
import { listUnapproved } from "../store/robots.ts";
import type { Engine } from "../transition.ts";

/**
 * Stores the current config files of each robot as its desired files. A target without files is `applied`. A target whose files violate a
 * schema fails, and its robot keeps the files that it has. If any file of a target contains secrets, the target waits until its robot is
 * approved. The caller has locked the robots' `robot_desired` rows.
 */
export async function writeDesiredConfigs(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  targets: readonly TargetRow[],
): Promise<TargetChange[]> {
  const { org_id, namespace } = deployment;
  const now = engine.clock.now();
  const robot_ids = targets.map(({ robot_id }) => robot_id);
  const always = await namespacesToKeep(tx, deployment, robot_ids);
  const by_robot = new Map(targets.map((target) => [target.robot_id, target]));
  const unapproved = new Set((await listUnapproved(tx, org_id, robot_ids)).map(({ id }) => id));
  const withheld: TargetRow[] = [];
  const changes: TargetChange[] = [];
  for await (const part of effectiveFiles(tx, engine, org_id, { robot_ids, namespace, always })) {
    const given = [...part].flatMap(([robot_id, made]): [TargetRow, RobotFiles][] => {
      const target = by_robot.get(robot_id);
      if (target === undefined) return [];
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
      else if (files.size === 0) changes.push({ target, to: "applied", reason: "already_installed", attempt, data: { changed: false } });
      else changes.push({ target, to: "dispatched", reason: null, attempt, deadline_at: deadlineOf("dispatched", 0, now) });
    }
  }
  const dispatched = changes.flatMap(({ target, to }) => (to === "failed" ? [] : [target.robot_id]));
  await setConfigOrders(tx, org_id, dispatched, namespace ?? ALL_NAMESPACES, deployment.order_number);
  const withheld_ids = withheld.map(({ id }) => id);
  await setWaitingFor(
    tx,
    org_id,
    withheld_ids,
    withheld.map(() => "approval" as const),
  );
  // The desired state of these robots may still contain an earlier attempt.
  await revertDesiredState(
    tx,
    engine,
    org_id,
    changes.flatMap(({ target, to }) => (to === "failed" && target.attempt > 0 ? [target] : [])),
  );
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
