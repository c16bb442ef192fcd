import type { RosSettings } from "../settings.ts";

const ROS1_DISTROS = new Set(["indigo", "kinetic", "lunar", "melodic", "noetic"]);

/**
 * Whether the agent joins the DDS domain without a setting for it: only if the environment, the configuration or installed packages indicate ROS 2. A
 * robot without ROS 2 should neither open ports for it nor multicast.
 */
export function isDdsLikely({ domain_id, prefixes, distro }: RosSettings): boolean {
  return domain_id !== undefined || prefixes.length > 0 || (distro !== undefined && !ROS1_DISTROS.has(distro));
}
