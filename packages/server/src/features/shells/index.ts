export { ShellRegistry, type ShellRequest, type ShellSession } from "./registry.ts";
export { startShellRetention } from "./retention.ts";
export { shellRoutes } from "./routes.ts";
