export type { ConfigFile } from "./config-file.ts";
export { countDataKeys, isSealed, rewrapDataKeys } from "./data-keys.ts";
export { effectiveConfig, type EffectiveValue } from "./effective.ts";
export { effectiveFiles, type RobotFiles } from "./effective-files.ts";
export { openFile } from "./open-file.ts";
export { configRoutes } from "./routes.ts";
export { registryLogins } from "./registry-logins.ts";
export { requireFileName } from "./set.ts";
