export { followLogs, type LiveBatch, type LogListener, resumeFollowing } from "./follow.ts";
export { ingestLogs } from "./ingest.ts";
export { type LatestLogs, latestLogs } from "./read.ts";
export { startLogRetention } from "./retention.ts";
export { logRoutes } from "./routes.ts";
export { logPosition } from "./store.ts";
