import type { RobotConfig } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { effectiveConfig, type EffectiveValue } from "./effective.ts";
import { REGISTRIES_NAMESPACE } from "./registry-logins.ts";
import { type DeployedRow, listDeployed } from "./store.ts";

export type ConfigState = RobotConfig["config_state"];

/** Whether the file that the robot reports is the one last deployed; a manual change counts as drift. */
export function stateOf({ version, sha256, reported_version, reported_sha256, target_id }: Omit<DeployedRow, "namespace">): ConfigState {
  if (reported_sha256 === sha256) return "in_sync";
  return target_id === null && reported_version === version ? "drifted" : "pending";
}

/** Returns the worst state of a robot's namespaces; unknown if nothing was ever deployed. */
export const worstOf = (states: readonly ConfigState[]): ConfigState =>
  (["drifted", "pending", "in_sync"] as const).find((state) => states.includes(state)) ?? "unknown";

/** Returns the robot's effective values with their origins, and the state of its deployed files. */
export async function readRobotConfig(db: Db, org_id: string, robot_id: string): Promise<RobotConfig> {
  const effective = await effectiveConfig(db, org_id, robot_id, null);
  const deployed = await listDeployed(db, org_id, robot_id);
  const namespaces = deployed.map((file) => ({
    namespace: file.namespace,
    deployed_version: file.version,
    deployed_sha256: file.sha256,
    reported_sha256: file.reported_sha256,
    state: stateOf(file),
  }));
  return {
    robot_id,
    config_state: worstOf(namespaces.map(({ state }) => state)),
    effective,
    namespaces: [...namespaces, ...neverDeployed(effective, deployed)],
  };
}

function neverDeployed(effective: readonly EffectiveValue[], deployed: readonly DeployedRow[]): RobotConfig["namespaces"] {
  // Registry logins are not files.
  const known = new Set([REGISTRIES_NAMESPACE, ...deployed.map(({ namespace }) => namespace)]);
  const others = new Set(effective.map(({ namespace }) => namespace).filter((namespace) => !known.has(namespace)));
  return Array.from(others, (namespace) => ({
    namespace,
    deployed_version: null,
    deployed_sha256: null,
    reported_sha256: null,
    state: "unknown" as const,
  }));
}
