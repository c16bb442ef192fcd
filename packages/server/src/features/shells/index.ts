export { ShellBook, type ShellRequest, type ShellSession } from "./book.ts";
export { startShellRetention } from "./retention.ts";
export { shellRoutes } from "./routes.ts";
