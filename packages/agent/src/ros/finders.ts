import type { FindRosAdapter, RosAdapterName } from "./adapter.ts";

/** How each adapter is found; what it needs is imported at the first search that gets that far. */
export const rosFinders: Partial<Record<RosAdapterName, FindRosAdapter>> = {
  dds: async (options) => (await import("./dds/dds-adapter.ts")).findDds(options),
  foxglove: async (options) => (await import("./foxglove/foxglove.ts")).findFoxglove(options),
  ros2: async (options) => (await import("./ros2-cli/ros2-cli.ts")).findRos2(options),
  rosbridge: async (options) => (await import("./rosbridge/rosbridge.ts")).findRosbridge(options),
  ros1: async (options) => (await import("./ros1/ros1.ts")).findRos1(options),
};
