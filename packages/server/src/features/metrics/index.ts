export { storeSamples, takeSamples } from "./ingest.ts";
export { metricRoutes } from "./routes.ts";
export { startMetricRetention } from "./retention.ts";
export { startRollups } from "./roll-up.ts";
