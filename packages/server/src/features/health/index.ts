export { startHealthHistory } from "./history.ts";
export { ingestHealth } from "./ingest.ts";
export { healthRoutes } from "./routes.ts";
