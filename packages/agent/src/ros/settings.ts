import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DOMAIN_ID_MAX, type RobotConfig, type RosAdapterName } from "../config-file/robot-config.ts";

/** The ROS settings from the robot's config file and the environment. */
export interface RosSettings {
  /** The adapters to try, in this order; empty: ROS is disabled. */
  adapters: readonly RosAdapterName[];
  /** DDS domain id from the config file or ROS_DOMAIN_ID. Undefined if neither is set, which means domain 0. */
  domain_id?: number;
  /** Whether ROS uses only this machine: ROS_LOCALHOST_ONLY=1 or ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST. */
  localhost_only?: boolean;
  /** Address of the Foxglove server from the config file; otherwise the default address of such a server. */
  foxglove_url: string;
  rosbridge_url: string;
  /** Address of the ROS 1 master from the config file or ROS_MASTER_URI; otherwise the default address. */
  ros1_master_uri: string;
  distro?: string;
  /**
   * Directories with message definitions: those of the config file, then AMENT_PREFIX_PATH. If neither is set, the distributions below
   * /opt/ros.
   */
  prefixes: readonly string[];
  /** Environment variables of child processes such as `ros2`. */
  environment: Readonly<Record<string, string>>;
}

export const DEFAULT_ADDRESSES = {
  foxglove_url: "ws://127.0.0.1:8765",
  rosbridge_url: "ws://127.0.0.1:9090",
  ros1_master_uri: "http://127.0.0.1:11311",
} as const;

/**
 * Combines the ROS settings of the robot's config file and of the agent's environment; the file takes precedence. A system service has
 * no ROS variables in its environment. Then the distributions below `system_root`/opt/ros are used.
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

/** Returns the directories of the installed ROS 2 distributions, newest first. Their names are alphabetical by release. */
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
