import type { RosAdapterName } from "./adapter.ts";

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
  /** AMENT_PREFIX_PATH, the parts. */
  prefixes: readonly string[];
  /** The environment that children such as `ros2` get. */
  environment: Readonly<Record<string, string>>;
}
