import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DOMAIN_ID_MAX, type RobotConfig, type RosAdapterName } from "../config-file/robot-config.ts";

/** ROS settings of the robot's config file and environment. */
export interface RosSettings {
  /** The adapters to try, in this order; empty: ROS is disabled. */
  adapters: readonly RosAdapterName[];
  /** From the config file, or ROS_DOMAIN_ID; undefined if not set, which means domain 0. */
  domain_id?: number;
  /** ROS_LOCALHOST_ONLY=1, or ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: ROS uses only this machine. */
  localhost_only?: boolean;
  /** From the config file; otherwise the server's default address. */
  foxglove_url: string;
  rosbridge_url: string;
  /** From the config file, or ROS_MASTER_URI; otherwise the default address. */
  ros1_master_uri: string;
  distro?: string;
  /**
   * Directories with message definitions: those of the config file, then AMENT_PREFIX_PATH. If neither is set, the distributions below
   * /opt/ros.
   */
  prefixes: readonly string[];
  /** The environment of children such as `ros2`. */
  environment: Readonly<Record<string, string>>;
}

export const DEFAULT_ADDRESSES = {
  foxglove_url: "ws://127.0.0.1:8765",
  rosbridge_url: "ws://127.0.0.1:9090",
  ros1_master_uri: "http://127.0.0.1:11311",
} as const;

/**
 * Combines the robot's config file with the agent's environment. The file takes precedence. A service has no ROS variables in its
 * environment; then the distributions below `system_root`/opt/ros apply.
 */
export function rosSettings(configured: RobotConfig["ros"], environment: Readonly<Record<string, string>>, system_root = "/"): RosSettings {
  const { ROS_DOMAIN_ID, ROS_MASTER_URI, ROS_DISTRO, AMENT_PREFIX_PATH } = environment;
  const { ROS_LOCALHOST_ONLY, ROS_AUTOMATIC_DISCOVERY_RANGE } = environment;
  const domain_id =
    configured.domain_id ?? (ROS_DOMAIN_ID !== undefined && /^\d{1,3}$/.test(ROS_DOMAIN_ID) ? Number(ROS_DOMAIN_ID) : undefined);
  return {
    adapters: configured.adapters,
    ...(domain_id === undefined || domain_id > DOMAIN_ID_MAX ? {} : { domain_id }),
    localhost_only: ROS_LOCALHOST_ONLY === "1" || ROS_AUTOMATIC_DISCOVERY_RANGE === "LOCALHOST",
    foxglove_url: configured.foxglove_url ?? DEFAULT_ADDRESSES.foxglove_url,
    rosbridge_url: configured.rosbridge_url ?? DEFAULT_ADDRESSES.rosbridge_url,
    ros1_master_uri: configured.ros1_master_uri ?? (ROS_MASTER_URI || DEFAULT_ADDRESSES.ros1_master_uri),
    ...(ROS_DISTRO ? { distro: ROS_DISTRO } : {}),
    prefixes: [
      ...(configured.prefixes ?? []),
      ...(AMENT_PREFIX_PATH === undefined
        ? installedRos(system_root)
        : AMENT_PREFIX_PATH.split(":").filter((prefix) => prefix.startsWith("/"))),
    ],
    environment,
  };
}

/** Returns prefixes of installed ROS 2 packages, newest release first: release names are alphabetical. */
function installedRos(system_root: string): string[] {
  const directory = join(system_root, "opt/ros");
  try {
    return readdirSync(directory)
      .toSorted()
      .toReversed()
      .map((name) => join(directory, name))
      .filter((prefix) => existsSync(join(prefix, "share/ament_index")));
  } catch {
    return [];
  }
}
