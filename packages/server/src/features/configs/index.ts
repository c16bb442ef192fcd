export { effectiveFiles, type RobotFiles } from "./effective-files.ts";
export { type ConfigFile, countDataKeys, isSealed, openFile, rewrapDataKeys } from "./data-keys.ts";
export { effectiveConfig, type EffectiveValue } from "./effective.ts";
export { configRoutes } from "./routes.ts";
export { registryLogins } from "./registry-logins.ts";
export { requireFileName } from "./set.ts";
