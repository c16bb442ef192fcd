export { storeSamples, takeSamples } from "./ingest.ts";
export { probeRead, probeWrite } from "./probe.ts";
export { setWatches } from "./store-watches.ts";
export { type WatchedMetric, watchKey } from "./watches.ts";
export { metricRoutes } from "./routes.ts";
export { startMetricRetention } from "./retention.ts";
export { startRollups } from "./roll-up.ts";
export { startRemoteWrite } from "./remote-write/sender.ts";
