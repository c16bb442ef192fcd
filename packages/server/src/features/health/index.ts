export { ingestHealth } from "./ingest.ts";
export { healthRoutes } from "./routes.ts";
