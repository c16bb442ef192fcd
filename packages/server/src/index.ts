export { LIMIT_DEFAULTS, type Limits, readSettings, type Settings, SettingsError } from "./config.ts";
export type { Plane } from "./context.ts";
export { createLog } from "./kernel/log.ts";
export { type PlaneOptions, type RunningPlane, startPlane } from "./plane.ts";
