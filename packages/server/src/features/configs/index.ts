export type { ConfigFile } from "./config-file.ts";
export { effectiveConfig, effectiveFiles, type EffectiveValue } from "./effective.ts";
export { configRoutes } from "./routes.ts";
export { requireFileName } from "./set.ts";
