import type { FindRosAdapter, RosAdapterName } from "./adapter.ts";

/** How each adapter is found; what it needs is imported at the first search that gets that far. */
export const rosFinders: Partial<Record<RosAdapterName, FindRosAdapter>> = {
  dds: async (options) => (await import("./dds/dds-adapter.ts")).findDds(options),
  foxglove: async (options) => (await import("./foxglove/foxglove.ts")).findFoxglove(options),
};
