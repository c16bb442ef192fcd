export { ShellBook, type ShellRequest, type ShellSession } from "./book.ts";
export { startRecordingRetention } from "./retention.ts";
export { shellRoutes } from "./routes.ts";
