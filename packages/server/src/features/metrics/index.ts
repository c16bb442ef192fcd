export { storeSamples } from "./ingest.ts";
export { latestSamples, querySeries } from "./read.ts";
export { startMetricRetention } from "./retention.ts";
