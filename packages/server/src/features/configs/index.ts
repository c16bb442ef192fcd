export { effectiveFiles, type RobotFiles } from "./effective-files.ts";
export { type ConfigFile, countDataKeys, isSealed, openFile, rewrapDataKeys } from "./data-keys.ts";
export { effectiveConfig, type EffectiveValue, registryLogins } from "./effective.ts";
export { configRoutes } from "./routes.ts";
export { requireFileName } from "./set.ts";
