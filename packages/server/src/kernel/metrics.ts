import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Seconds; requests are a few milliseconds, a long list a few hundred. */
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Every metric of the server, on a registry of its own so that several planes fit in one process. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  return {
    registry,
    http_requests: new Counter({
      name: "robofleet_http_requests_total",
      help: "HTTP requests answered",
      labelNames: ["route", "status"] as const,
      registers,
    }),
    http_duration: new Histogram({
      name: "robofleet_http_request_duration_seconds",
      help: "Time to answer an HTTP request",
      labelNames: ["route"] as const,
      buckets: BUCKETS_SECONDS,
      registers,
    }),
    robots_connected: new Gauge({ name: "robofleet_robots_connected", help: "Robots whose link this node holds", registers }),
    log_records: new Counter({ name: "robofleet_log_records_total", help: "Log records stored", registers }),
    log_bytes_stored: new Counter({ name: "robofleet_log_bytes_stored_total", help: "Bytes of log batches stored", registers }),
    log_bytes_dropped: new Counter({
      name: "robofleet_log_bytes_dropped_total",
      help: "Bytes of log batches dropped because their org had more than log_bytes_per_org_max",
      registers,
    }),
    targets_dispatched: new Counter({
      name: "robofleet_targets_dispatched_total",
      help: "Deployment targets dispatched to robots",
      registers,
    }),
    reports_taken: new Counter({ name: "robofleet_reports_taken_total", help: "Durable reports of robots taken", registers }),
    report_batches: new Counter({ name: "robofleet_report_batches_total", help: "Transactions in which they were taken", registers }),
    targets_ended: new Counter({
      name: "robofleet_targets_ended_total",
      help: "Deployment targets that ended",
      labelNames: ["status"] as const,
      registers,
    }),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
