import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { RobotConfig, RosAdapterName } from "../config-file/robot-config.ts";

/** What the robot's configuration and environment say about its ROS. */
export interface RosSettings {
  /** Which ways are tried, in this order; none: the robot has no ROS for us. */
  adapters: readonly RosAdapterName[];
  /** By the configuration, else ROS_DOMAIN_ID; undefined: nobody said, which means 0. */
  domain_id?: number;
  /** ROS_LOCALHOST_ONLY=1, or ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: ROS keeps to this machine. */
  localhost_only?: boolean;
  /** The same for each of these: configured, else undefined and the usual place is tried. */
  foxglove_url?: string;
  rosbridge_url?: string;
  /** By the configuration, else ROS_MASTER_URI. */
  ros1_master_uri?: string;
  /** ROS_DISTRO. */
  distro?: string;
  /** Where definitions of messages are: those of the configuration, then AMENT_PREFIX_PATH, or else what is installed below /opt/ros. */
  prefixes: readonly string[];
  /** The environment that children such as `ros2` get. */
  environment: Readonly<Record<string, string>>;
}

/**
 * What the robot's configuration says of its ROS, and what the agent's environment does where that is silent. A service has none of ROS in its environment:
 * then what is installed below `system_root`/opt/ros counts.
 */
export function rosSettings(configured: RobotConfig["ros"], environment: Readonly<Record<string, string>>, system_root = "/"): RosSettings {
  const { ROS_DOMAIN_ID, ROS_MASTER_URI, ROS_DISTRO, AMENT_PREFIX_PATH } = environment;
  const { ROS_LOCALHOST_ONLY, ROS_AUTOMATIC_DISCOVERY_RANGE } = environment;
  const domain_id =
    configured.domain_id ?? (ROS_DOMAIN_ID !== undefined && /^\d{1,3}$/.test(ROS_DOMAIN_ID) ? Number(ROS_DOMAIN_ID) : undefined);
  const ros1_master_uri = configured.ros1_master_uri ?? (ROS_MASTER_URI || undefined);
  return {
    adapters: configured.adapters,
    ...(domain_id === undefined || domain_id > DOMAIN_ID_MAX ? {} : { domain_id }),
    localhost_only: ROS_LOCALHOST_ONLY === "1" || ROS_AUTOMATIC_DISCOVERY_RANGE === "LOCALHOST",
    ...(configured.foxglove_url === undefined ? {} : { foxglove_url: configured.foxglove_url }),
    ...(configured.rosbridge_url === undefined ? {} : { rosbridge_url: configured.rosbridge_url }),
    ...(ros1_master_uri === undefined ? {} : { ros1_master_uri }),
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

/** Beyond, the ports of a domain are none. */
const DOMAIN_ID_MAX = 232;

/** Prefixes of the ROS 2 that packages have installed, the newest release first: their names go by the alphabet. */
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
