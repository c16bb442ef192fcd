import type { Command } from "commander";
import { LIMIT_DEFAULTS, type LimitName } from "./config.ts";

/** Descriptions of each setting for `roamfleet serve --help` and docs/reference/settings.md. */

export interface Flag {
  /** Name and argument of the option, in the format of the commander library, such as `--data <dir>`. */
  flags: string;
  meaning: string;
  repeatable?: true;
}

export const SERVE_FLAGS: readonly Flag[] = [
  { flags: "--data <dir>", meaning: "directory of all data (default: ./.roamfleet)" },
  { flags: "--listen <host:port>", meaning: "address of the API and the dashboard (default: 127.0.0.1:7600)" },
  { flags: "--tls <auto>", meaning: "auto: use TLS with this server's own certificate authority, stored in the data directory" },
  {
    flags: "--tls-name <name>",
    meaning: "additional host name or address in the certificate of --tls auto; may be repeated",
    repeatable: true,
  },
  { flags: "--tls-cert <file>", meaning: "certificate chain in PEM format; reloaded when the file changes" },
  { flags: "--tls-key <file>", meaning: "private key of the certificate; reloaded when the file changes" },
  {
    flags: "--node-listen <host:port>",
    meaning: "address for connections from other servers; used only with ROAMFLEET_BUS_URL (default: 0.0.0.0:7601)",
  },
  {
    flags: "--node-address <host:port>",
    meaning:
      "address at which other servers reach this server; port 0: the port of --node-listen (default: this machine's first IPv4 address)",
  },
  {
    flags: "--behind-proxy <networks>",
    meaning: "a proxy at these addresses (10.0.0.0/8,127.0.0.1) provides TLS: only it may connect, and its X-Forwarded-For is trusted",
  },
  {
    flags: "--host-name <name>",
    meaning:
      "additional host name or address that robots use for this server, besides those of its certificate and of --listen. Requests that a robot signed for another host are refused. Behind a proxy every host is accepted unless this is set. May be repeated",
    repeatable: true,
  },
  {
    flags: "--packages <dir>",
    meaning: "host the packages in this directory, which `npm run package` makes: robots then install the agent from this server",
  },
  { flags: "--no-dashboard", meaning: "serve only the API; do not build or serve the dashboard" },
  { flags: "--log-level <level>", meaning: "trace, debug, info, warn or error (default: info)" },
  { flags: "--limit <name=number>", meaning: "change a limit; may be repeated", repeatable: true },
  {
    flags: "--crash-at-failpoint",
    meaning: "for crash tests only: the server kills itself at ROAMFLEET_FAILPOINT, which has no effect without this flag",
  },
];

/** Adds options to a command. An option that may be repeated collects its values in a list. */
export function addFlags(command: Command, flags: readonly Flag[]): Command {
  for (const { flags: names, meaning, repeatable } of flags)
    if (repeatable) command.option(names, meaning, (one: string, all: string[] | undefined) => [...(all ?? []), one]);
    else command.option(names, meaning);
  return command;
}

export const SERVE_ENVIRONMENT: readonly (readonly [name: string, meaning: string])[] = [
  ["DATABASE_URL", "use this PostgreSQL (15 or newer) instead of the embedded one"],
  ["DATABASE_URL_FILE", "file that contains the value of DATABASE_URL"],
  [
    "ROAMFLEET_BLOBS_URL",
    "s3://bucket/prefix?endpoint=https://s3.example.com&region=…&path_style=1: store artifacts in this S3-compatible store instead of the data directory",
  ],
  ["AWS_ACCESS_KEY_ID", "access key of that store (default: the role of the machine, container or pod)"],
  ["AWS_SECRET_ACCESS_KEY", "secret of the access key"],
  ["AWS_SESSION_TOKEN", "session token, for temporary credentials"],
  ["AWS_REGION", "region, unless it is in the URL (default: us-east-1)"],
  [
    "ROAMFLEET_BUS_URL",
    "nats://[user:password@]host[:4222][,host…][/prefix] or tls://…: NATS servers through which several Roamfleet servers on one database notify each other of changes",
  ],
  ["ROAMFLEET_BUS_URL_FILE", "file that contains the value of ROAMFLEET_BUS_URL"],
  ["SERVICE_ADMIN_TOKEN", "token for the admin routes, at least 16 characters; without it, only this machine may use them"],
  ["SERVICE_ADMIN_TOKEN_FILE", "file that contains the value of SERVICE_ADMIN_TOKEN"],
  [
    "ROAMFLEET_SECRETS_KEY",
    "key that encrypts secret configs, 32 bytes in hex or base64, followed by earlier keys (default: secrets.key in the data directory)",
  ],
  ["ROAMFLEET_SECRETS_KEY_FILE", "file that contains the value of ROAMFLEET_SECRETS_KEY"],
  ["ROAMFLEET_SMTP_URL", "smtp://[user:password@]host[:587] or smtps://…: mail server for alerts"],
  ["ROAMFLEET_SMTP_URL_FILE", "file that contains the value of ROAMFLEET_SMTP_URL"],
  ["ROAMFLEET_SMTP_FROM", "sender address of alerts"],
  ["ROAMFLEET_ALERT_NETWORKS", "ranges that are not public, separated by commas, to which alerts may be sent nevertheless"],
  [
    "ROAMFLEET_METRICS_REMOTE_WRITE_URL",
    "https://[user:password@]host/api/v1/write: send all samples of robots to this receiver of Prometheus remote write",
  ],
  ["ROAMFLEET_METRICS_REMOTE_WRITE_URL_FILE", "file that contains the value of ROAMFLEET_METRICS_REMOTE_WRITE_URL"],
  ["ROAMFLEET_METRICS_REMOTE_WRITE_TOKEN", "bearer token for that receiver"],
  ["ROAMFLEET_METRICS_REMOTE_WRITE_TOKEN_FILE", "file that contains the value of ROAMFLEET_METRICS_REMOTE_WRITE_TOKEN"],
  [
    "ROAMFLEET_METRICS_URL",
    "https://[user:password@]host[/prefix]: Prometheus-compatible API with these samples, which answers for times that the database no longer has",
  ],
  ["ROAMFLEET_METRICS_URL_FILE", "file that contains the value of ROAMFLEET_METRICS_URL"],
  ["ROAMFLEET_METRICS_TOKEN", "bearer token for that API"],
  ["ROAMFLEET_METRICS_TOKEN_FILE", "file that contains the value of ROAMFLEET_METRICS_TOKEN"],
  [
    "ROAMFLEET_MAP_TILES_URL",
    "https://host/{z}/{x}/{y}.png: map tiles of the dashboard, which browsers load from there. Users can read the URL",
  ],
  ["ROAMFLEET_MAP_ATTRIBUTION", "text below the map that the license of the tiles requires"],
  ["ROAMFLEET_DATA", "same as --data"],
  ["ROAMFLEET_LISTEN", "same as --listen"],
  ["ROAMFLEET_TLS", "same as --tls"],
  ["ROAMFLEET_TLS_NAMES", "same as --tls-name, separated by commas"],
  ["ROAMFLEET_TLS_CERT", "same as --tls-cert"],
  ["ROAMFLEET_TLS_KEY", "same as --tls-key"],
  ["ROAMFLEET_NODE_LISTEN", "same as --node-listen"],
  ["ROAMFLEET_NODE_ADDRESS", "same as --node-address"],
  ["ROAMFLEET_BEHIND_PROXY", "same as --behind-proxy"],
  ["ROAMFLEET_HOST_NAMES", "same as --host-name, separated by commas"],
  ["ROAMFLEET_PACKAGES", "same as --packages"],
  ["ROAMFLEET_DASHBOARD", "off: same as --no-dashboard"],
  ["ROAMFLEET_LOG_LEVEL", "same as --log-level"],
];

/** Descriptions of all limits. The type requires a description for each. */
export const LIMIT_MEANINGS: Readonly<Record<LimitName, string>> = {
  token_requests_per_minute: "requests per minute of one portal token to each server",
  token_burst: "burst of requests of one portal token to each server",
  api_requests_per_org_per_minute:
    "requests per minute, and burst of requests, of all tokens and sessions of one org to each server; at least as many as for one token",
  unknown_requests_per_minute:
    "failed attempts per minute from one address (IPv6: /64) to each server: unknown tokens, enrollment keys and robot signatures, and wrong admin tokens",
  database_connections: "connections of each server to the database",
  artifact_bytes_max:
    "total bytes of the artifacts of one org; an upload in a single request to another server counts only when it is complete",
  free_disk_bytes_min: "bytes that uploads must leave free in the data directory",
  uploads_per_org_max: "incomplete uploads of one org",
  upload_disk_share_percent:
    "percentage of the data directory's free disk space that one org's incomplete uploads may take if there are other orgs",
  upload_silence_seconds: "seconds without data after which an incomplete upload is deleted; the client can then start it again",
  log_retention_days: "days that log records are kept; whole days are deleted",
  health_retention_days: "days that the health history of robots is kept; whole days are deleted",
  metric_raw_retention_days: "days that samples of robots' metrics are kept; whole days are deleted",
  metric_rollup_retention_days: "days that metrics are kept as averages of 5 minutes and an hour; whole days are deleted",
  metric_series_per_robot_max: "series of one robot in one batch of samples; further series are counted, but not stored",
  timeline_retention_days: "days that timeline entries of robots are kept; 0: forever",
  audit_retention_days: "days that audit entries are kept; 0: forever",
  deployment_event_retention_days: "days that the events of a deployment are kept after it ended; 0: as long as the deployment",
  alert_delivery_retention_days: "days that a finished message to a channel is kept, longer while its incident is unresolved; 0: forever",
  deployment_retention_days:
    "days that a deployment is kept after it ended, with its robots' results and its Idempotency-Key; longer while robots or a fleet use its release or config; 0: forever",
  incident_retention_days: "days that an incident is kept after it was resolved; 0: forever",
  shell_recording_days: "days that shell recordings are kept, at most as long as the records of their sessions",
  shell_session_retention_days: "days that records of shell sessions are kept, with the user and how the session ended; 0: forever",
  shell_recording_bytes_max: "total bytes of the shell recordings of one org; the oldest are deleted first",
  log_bytes_per_org_max:
    "bytes of the log records of one org in the database; beyond this limit, the oldest records are deleted; 0: no limit",
  log_robot_share_percent:
    "percentage of log_bytes_per_org_max that the log records of one robot may take; beyond this limit, the robot's oldest records are deleted",
  log_bytes_per_robot_per_second:
    "bytes of uncompressed log records per second from one robot; a robot that logs more is slowed down, and its records wait in its spool",
  log_burst_bytes_per_robot: "bytes of log records that one robot may send in a burst, such as after it was offline",
  deployment_expiry_hours:
    "hours from the start of a deployment until it expires: targets that have not begun to install are then cancelled",
  heartbeat_seconds: "seconds between heartbeats of a robot; after three missed heartbeats its link is closed",
  health_seconds: "seconds between health measurements of a robot; it sends changes, and a snapshot every five minutes",
  log_flush_ms: "milliseconds that a robot collects log records before it sends them; ten times as long while records keep coming",
  robots_max: "robots connected to each server",
  unauthenticated_links_max: "connections of robots to each server that are not yet authenticated",
  link_accepts_per_second: "robots accepted per second by each server; further robots get a time to retry; 0: no limit",
  followers_per_robot_max: "live log readers of one robot",
  streams_per_robot_max: "open streams of viewers for one robot (logs, shells, cameras, …); also for one fleet's logs on each server",
  streams_per_org_max:
    "open streams of viewers per org and server: those of the org's robots that are connected to that server, and of its fleets' logs",
  streams_kept_for_shells:
    "streams reserved for shells, within streams_per_robot_max and streams_per_org_max and among the 64 streams of a robot's link",
  event_streams_per_token_max: "open event streams of one token on each server; each page of the dashboard uses one",
  event_streams_per_org_max: "open event streams of one org on each server",
  org_requests_per_hour: "org requests per hour from one address to each server; 0: none allowed",
  pending_org_days: "days after which an org that was not approved is deleted; 0: never",
  session_idle_hours: "hours until an unused browser session ends",
  session_hours: "hours until a browser session ends, even if it is used",
  drain_seconds:
    "seconds that a server continues to serve during shutdown, while /readyz returns 503, so that load balancers remove the server",
};

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, meaning]) => `  ${name.padEnd(width)}  ${meaning}`).join("\n");
};

/** Text below the options in the help of `serve`. */
export const serveHelp = (): string => `
Limits and their defaults:
${rows(Object.entries(LIMIT_DEFAULTS).map(([name, value]) => [`${name}=${value}`, LIMIT_MEANINGS[name as LimitName]]))}

Environment (flags take precedence):
${rows(SERVE_ENVIRONMENT)}`;
