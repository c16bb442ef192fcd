import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Upper bounds of the duration buckets in seconds. Most requests take a few milliseconds, and long lists some hundred. */
const BUCKETS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/**
 * Default metrics that are removed. At each scrape they would list all open handles, which blocks the event loop for 25 ms with 15,000
 * links. The metric of open files has the same information.
 */
const COUNTED_BY_LISTING = ["handles", "requests", "resources"].flatMap((what) => [`nodejs_active_${what}`, `nodejs_active_${what}_total`]);

/** Creates a metric without labels. */
type Create<T> = (name: string, help: string) => T;

const createRemoteWriteMetrics = ({ counter, sampled }: { counter: Create<Counter>; sampled: Create<Gauge> }) => ({
  remote_write_samples: counter("roamfleet_remote_write_samples_total", "Samples that remote write sent and the receiver accepted"),
  remote_write_refused: counter("roamfleet_remote_write_samples_refused_total", "Samples that the receiver of remote write refused"),
  remote_write_failures: counter("roamfleet_remote_write_failures_total", "Requests of remote write that failed and are retried"),
  remote_write_chunks_expired: counter(
    "roamfleet_remote_write_chunks_expired_total",
    "Chunks of samples deleted by age before remote write could send them",
  ),
  remote_write_backlog: sampled("roamfleet_remote_write_backlog_chunks", "Chunks of samples that remote write has not sent"),
  remote_write_age: sampled(
    "roamfleet_remote_write_oldest_sample_age_seconds",
    "Age of the oldest sample that remote write has not sent, in seconds; 0 without one",
  ),
});

/**
 * Milliseconds between two samples of the event loop's lag. Each reported lag includes this time. Each sample wakes the process, so the
 * default of 10 ms doubles the CPU time of an idle server.
 */
export const LAG_SAMPLE_MS = 50;

/** Creates every metric of the server on a separate registry, so that several planes fit in one process. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: LAG_SAMPLE_MS });
  for (const name of COUNTED_BY_LISTING) registry.removeSingleMetric(name);
  const registers = [registry];
  const counter = <L extends string = string>(name: string, help: string, labelNames: L[] = []) =>
    new Counter<L>({ name, help, labelNames, registers });
  const gauge = <L extends string = string>(name: string, help: string, labelNames: L[] = []) =>
    new Gauge<L>({ name, help, labelNames, registers });
  /** Creates a gauge that is sampled once a minute. It is NaN until the first sample, and while its value cannot be read. */
  const sampled = (name: string, help: string) => {
    const made = gauge(name, help);
    made.set(Number.NaN);
    return made;
  };
  return {
    registry,
    http_requests: counter("roamfleet_http_requests_total", "HTTP requests answered", ["route", "status"]),
    http_duration: new Histogram({
      name: "roamfleet_http_request_duration_seconds",
      help: "Time to answer an HTTP request, in seconds",
      labelNames: ["route"] as const,
      buckets: BUCKETS_SECONDS,
      registers,
    }),
    robots_connected: gauge("roamfleet_robots_connected", "Robots connected to this node"),
    node_info: gauge("roamfleet_node_info", "Always 1; the labels are the id of this node and the version of its program", [
      "node_id",
      "version",
    ]),
    nodes_living: gauge("roamfleet_nodes_living", "Running nodes on the database, as last seen by this node"),
    bus_connected: gauge("roamfleet_bus_connected", "1 if this node receives the messages of other nodes or is the only node, otherwise 0"),
    bus_gaps: counter(
      "roamfleet_bus_gaps_total",
      "Number of times that messages of other nodes may have been lost, and the node reloaded its state",
    ),
    streams_relayed: gauge("roamfleet_streams_relayed", "Viewers of this node that are forwarded to the node of their robot"),
    node_connections_refused: counter("roamfleet_node_connections_refused_total", "Refused connections to the listener for other nodes"),
    disk_full: gauge("roamfleet_disk_full", "1 when the disk of the data directory has less than 16 MiB free"),
    disk_free_bytes: sampled("roamfleet_disk_free_bytes", "Bytes free on the disk of the data directory"),
    database_bytes: sampled("roamfleet_database_bytes", "Size of the database in bytes"),
    wal_bytes: sampled("roamfleet_wal_bytes", "Size of PostgreSQL's write-ahead log in bytes"),
    backup_age: sampled("roamfleet_backup_age_seconds", "Age of the last backup of the data directory in seconds; +Inf without one"),
    oldest_log_age: sampled("roamfleet_oldest_log_age_seconds", "Age of the oldest stored log records of robots in seconds"),
    database_restarts: counter("roamfleet_database_restarts_total", "Restarts of PostgreSQL that were observed"),
    metric_samples: counter("roamfleet_metric_samples_total", "Samples of robots' metrics stored"),
    metric_samples_dropped: counter("roamfleet_metric_samples_dropped_total", "Samples of robots' metrics beyond a bound", ["reason"]),
    ...createRemoteWriteMetrics({ counter, sampled }),
    log_records: counter("roamfleet_log_records_total", "Log records stored"),
    log_acks_delayed: counter(
      "roamfleet_log_acks_delayed_total",
      "Number of times that the server began to delay acknowledgements because a robot sent more bytes of logs than log_bytes_per_robot_per_second allows",
    ),
    log_fields_replaced: counter(
      "roamfleet_log_fields_replaced_total",
      "Log records whose fields were nested too deeply and were replaced",
    ),
    log_bytes_stored: counter("roamfleet_log_bytes_stored_total", "Bytes of log batches stored"),
    log_bytes_dropped: counter(
      "roamfleet_log_bytes_dropped_total",
      "Bytes of log batches dropped because their org had more than log_bytes_per_org_max",
    ),
    targets_dispatched: counter("roamfleet_targets_dispatched_total", "Deployment targets dispatched to robots"),
    reports_taken: counter("roamfleet_reports_taken_total", "Durable robot reports that were stored"),
    report_batches: counter("roamfleet_report_batches_total", "Transactions that stored reports"),
    targets_ended: counter("roamfleet_targets_ended_total", "Deployment targets that ended", ["status"]),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;

/** Load of a node's links. */
interface LinkLoad {
  admissions: { queued: number; booked: number; rate: number };
  work: { bytes: number; held: number };
}

/** Gauges of the links, read at each scrape. */
export function measureLinks(metrics: Metrics, read: () => LinkLoad): void {
  const gauge = (name: string, help: string, value: (load: LinkLoad) => number): void => measure(metrics, name, help, () => value(read()));
  gauge("roamfleet_links_in_line", "Robot connections waiting for admission", ({ admissions }) => admissions.queued);
  gauge("roamfleet_links_booked", "Robots with a reserved time to reconnect", ({ admissions }) => admissions.booked);
  gauge(
    "roamfleet_link_admissions_per_second",
    "Estimated robot connections that this node can accept per second",
    ({ admissions }) => admissions.rate,
  );
  gauge("roamfleet_link_work_bytes", "Bytes of robots' messages waiting for the database", ({ work }) => work.bytes);
  gauge("roamfleet_links_held", "Robots whose messages are not read because too many are waiting", ({ work }) => work.held);
}

/** Gauges of TLS handshakes; 0 without TLS. */
export function measureHandshakes(metrics: Metrics, load: { running: number; queued: number }): void {
  measure(metrics, "roamfleet_tls_handshakes_under_way", "TLS handshakes in progress", () => load.running);
  measure(metrics, "roamfleet_tls_handshakes_in_line", "Connections waiting for their TLS handshake", () => load.queued);
}

/** Gauges of the database connections, read at each scrape. */
export function measureConnections(metrics: Metrics, db: { readonly load: { in_use: number; waiting: number } }): void {
  measure(metrics, "roamfleet_database_connections_in_use", "Database connections in use", () => db.load.in_use);
  measure(metrics, "roamfleet_database_connections_waiting", "Queries and transactions waiting for a connection", () => db.load.waiting);
}

/** Adds the gauge of how far the clock for deletions by age is behind the wall clock. */
export function measureRetentionClock(metrics: Metrics, clock: { behind_ms: number }): void {
  measure(
    metrics,
    "roamfleet_retention_clock_behind_seconds",
    "Seconds by which the wall clock is ahead of the time that deletions by age use; over 3600 after a wrong clock or a long stop",
    () => clock.behind_ms / 1_000,
  );
}

/** Adds the gauge of how far the rollups of robots' metrics are behind. */
export function measureRollups(metrics: Metrics, lag_ms: () => number): void {
  measure(
    metrics,
    "roamfleet_metric_rollup_lag_seconds",
    "Time for which the longest waiting robot has been due to have its samples added to the rollups, in seconds; 0 when no robot waits",
    () => lag_ms() / 1_000,
  );
}

/** Adds the counter of dropped lines of this server's own log. */
export function measureLogOutput({ registry }: Metrics, output = { lines_dropped: 0 }): void {
  const dropped: Counter = new Counter({
    name: "roamfleet_server_log_lines_dropped_total",
    help: "Lines of this server's log that stdout did not accept",
    registers: [registry],
    collect: () => {
      dropped.reset();
      dropped.inc(output.lines_dropped);
    },
  });
}

function measure({ registry }: Metrics, name: string, help: string, value: () => number): void {
  const made: Gauge = new Gauge({ name, help, registers: [registry], collect: () => made.set(value()) });
}
