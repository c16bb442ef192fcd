import type { RosSettings } from "../settings.ts";

const ROS1_DISTROS = new Set(["indigo", "kinetic", "lunar", "melodic", "noetic"]);

/**
 * Whether the agent joins the DDS domain without being told to: only where the environment, the configuration or what is installed speaks of ROS 2, because
 * a robot that has none should neither open ports for it nor multicast.
 */
export function isDdsLikely({ domain_id, prefixes, distro }: RosSettings): boolean {
  return domain_id !== undefined || prefixes.length > 0 || (distro !== undefined && !ROS1_DISTROS.has(distro));
}
