export { type ConfigFile, effectiveConfig, effectiveFiles } from "./effective.ts";
export { configRoutes } from "./routes.ts";
export { requireFileName } from "./set.ts";
