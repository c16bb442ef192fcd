export { effectiveFiles, type RobotFiles } from "./effective-files.ts";
export { type ConfigFile, countDataKeys, ensureOrgSecrets, isSealed, openFile, openOrgSecrets, rewrapDataKeys } from "./data-keys.ts";
export { effectiveConfig, type EffectiveValue, registryLogins } from "./effective.ts";
export { configRoutes } from "./routes.ts";
export { requireFileName } from "./set.ts";
