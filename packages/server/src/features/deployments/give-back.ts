import type { TargetStatus } from "@roamfleet/protocol";
import type { Db } from "../../kernel/db.ts";
import { bumpGenerations, lockGenerations, revertConfigs, revertDesiredApps } from "./store/robot-state.ts";
import type { TargetRow } from "./store/rows.ts";
import { type Engine, HINT_PUSH } from "./transition.ts";

/** Results that indicate a fault of the release. */
const FAILURES: ReadonlySet<TargetStatus | undefined> = new Set(["failed", "rolled_back"]);

/**
 * Reverts the desired state of the robots of these targets, which ended without success or are being cancelled. A robot that has begun to
 * install finishes first and decides locally.
 */
export async function giveBack(
  tx: Db,
  engine: Engine,
  org_id: string,
  targets: readonly Pick<TargetRow, "id" | "kind" | "robot_id">[],
  /** How they ended, by target id; absent for targets that are only being cancelled. */
  ends: ReadonlyMap<string, TargetStatus> = new Map(),
): Promise<void> {
  if (targets.length === 0) return;
  const now = engine.clock.now();
  await lockGenerations(
    tx,
    org_id,
    targets.map(({ robot_id }) => robot_id),
  );
  const releases = targets.filter(({ kind }) => kind === "release");
  const configs = targets.filter(({ kind }) => kind === "config");
  const failed = releases.filter(({ id }) => FAILURES.has(ends.get(id))).map(({ id }) => id);
  const robots = new Set<string>();
  if (releases.length > 0) for (const { robot_id } of await revertDesiredApps(tx, org_id, releases, failed, now)) robots.add(robot_id);
  if (configs.length > 0) for (const { robot_id } of await revertConfigs(tx, org_id, configs, now)) robots.add(robot_id);
  if (robots.size === 0) return;
  const robot_ids = [...robots];
  await bumpGenerations(tx, org_id, robot_ids, now);
  tx.afterCommit(() => engine.bus.publish(HINT_PUSH, { org_id, robot_ids }));
}
