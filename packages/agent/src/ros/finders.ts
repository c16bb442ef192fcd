import { type FindRosAdapter, type RosAdapterName, type RosAdapterOptions, addressTowards } from "./adapter.ts";
import type { RosSettings } from "./settings.ts";

/**
 * How each adapter is found. The module of an adapter is imported only once success is likely: on a robot without ROS, where searches
 * repeat forever, it would waste memory.
 */
export const rosFinders: Partial<Record<RosAdapterName, FindRosAdapter>> = {
  dds: async (options) => (isDdsLikely(options.settings) ? (await import("./dds/dds-adapter.ts")).findDds(options) : undefined),
  foxglove: async (options) =>
    (await listens(options.settings.foxglove_url, options)) ? (await import("./foxglove/foxglove.ts")).findFoxglove(options) : undefined,
  ros2: async (options) => (await import("./ros2-cli/ros2-cli.ts")).findRos2(options),
  rosbridge: async (options) =>
    (await listens(options.settings.rosbridge_url, options))
      ? (await import("./rosbridge/rosbridge.ts")).findRosbridge(options)
      : undefined,
  ros1: async (options) =>
    (await listens(options.settings.ros1_master_uri, options)) ? (await import("./ros1/ros1.ts")).findRos1(options) : undefined,
};

const listens = async (url: string, { clock, signal }: Pick<RosAdapterOptions, "clock" | "signal">): Promise<boolean> =>
  (await addressTowards(url, clock, signal)) !== undefined;

const ROS1_DISTROS = new Set(["indigo", "kinetic", "lunar", "melodic", "noetic"]);

/**
 * Returns whether the agent should join the DDS domain if no setting requests it. It should do so only if the environment, the
 * configuration or installed packages indicate ROS 2. On other robots it should neither open ports for DDS nor send multicast.
 */
export function isDdsLikely({ domain_id, prefixes, distro }: Pick<RosSettings, "domain_id" | "prefixes" | "distro">): boolean {
  return domain_id !== undefined || prefixes.length > 0 || (distro !== undefined && !ROS1_DISTROS.has(distro));
}
