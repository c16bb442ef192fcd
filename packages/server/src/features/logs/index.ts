export { followLogs, type LiveBatch, type LogListener, resumeFollowing } from "./follow.ts";
export { ingestLogs } from "./ingest.ts";
export { fleetScan, type LogFilter, LogMatch, readBehind, readTail, scanLogs } from "./read.ts";
export { startLogRetention } from "./usage.ts";
export { logRoutes } from "./routes.ts";
export { oldestLogAt } from "./store-usage.ts";
export { type BatchKey, fleetPositions, isBefore, isSame, type LogPosition, logPosition, logPositions, robotsOfFleet } from "./store.ts";
