import { LIMIT_DEFAULTS, type LimitName } from "./config.ts";

/** What `roamfleet serve --help` says of each setting; docs/reference/settings.md is made of the same words. */

export interface Flag {
  /** As commander takes it. */
  flags: string;
  meaning: string;
  repeatable?: true;
}

export const SERVE_FLAGS: readonly Flag[] = [
  { flags: "--data <dir>", meaning: "where everything is kept (default: ./.roamfleet)" },
  { flags: "--listen <host:port>", meaning: "where the API answers (default: 127.0.0.1:7600)" },
  { flags: "--tls <auto>", meaning: "auto: speak TLS with a certificate authority of this server's own, kept in the data directory" },
  {
    flags: "--tls-name <name>",
    meaning: "further host name or address in the certificate of --tls auto; may be repeated",
    repeatable: true,
  },
  { flags: "--tls-cert <file>", meaning: "certificate chain in PEM form; read anew when the file changes" },
  { flags: "--tls-key <file>", meaning: "private key of the certificate; read anew when the file changes" },
  {
    flags: "--node-listen <host:port>",
    meaning: "where the other servers of ROAMFLEET_BUS_URL connect to this one, for nobody else (default: 0.0.0.0:7601)",
  },
  {
    flags: "--node-address <host:port>",
    meaning: "what they are told to connect to; port 0: the one of --node-listen (default: this machine's first IPv4 address)",
  },
  {
    flags: "--behind-proxy <networks>",
    meaning: "a proxy at these addresses (10.0.0.0/8,127.0.0.1) speaks TLS: nobody else may connect, and its X-Forwarded-For is believed",
  },
  {
    flags: "--host-name <name>",
    meaning:
      "host name or address that robots reach this server by, besides those of its certificate and of --listen; what robots signed for another host is refused. Behind a proxy every host is accepted until one is named. May be repeated",
    repeatable: true,
  },
  { flags: "--no-dashboard", meaning: "serve the API only: no dashboard at /, and none is built at the start" },
  { flags: "--log-level <level>", meaning: "trace, debug, info, warn or error (default: info)" },
  { flags: "--limit <name=number>", meaning: "change a limit; may be repeated", repeatable: true },
  {
    flags: "--crash-at-failpoint",
    meaning:
      "for tests of crashes only: the server kills itself where ROAMFLEET_FAILPOINT says; without this flag that variable does nothing",
  },
];

export const SERVE_ENVIRONMENT: readonly (readonly [name: string, meaning: string])[] = [
  ["DATABASE_URL", "use this PostgreSQL (15 or newer) instead of the embedded one"],
  ["DATABASE_URL_FILE", "a file that holds it"],
  [
    "ROAMFLEET_BLOBS_URL",
    "s3://bucket/prefix?endpoint=https://s3.example.com&region=…&path_style=1: keep artifacts in this S3-compatible store instead of in the data directory",
  ],
  ["AWS_ACCESS_KEY_ID", "who we are to that store (default: the role of the machine, container or pod)"],
  ["AWS_SECRET_ACCESS_KEY", "the secret that belongs to it"],
  ["AWS_SESSION_TOKEN", "the token that belongs to both, when they are temporary"],
  ["AWS_REGION", "its region, unless the URL says it (default: us-east-1)"],
  [
    "ROAMFLEET_BUS_URL",
    "nats://[user:password@]host[:4222][,host…][/prefix] or tls://…: the NATS through which several servers on one database tell each other what changed",
  ],
  ["ROAMFLEET_BUS_URL_FILE", "a file that holds it"],
  ["SERVICE_ADMIN_TOKEN", "token of the admin routes, at least 16 characters; unset, they are open to this machine only"],
  ["SERVICE_ADMIN_TOKEN_FILE", "a file that holds it"],
  [
    "ROAMFLEET_SECRETS_KEY",
    "what secret configs are encrypted with, 32 bytes in hex or base64; those of before behind it (default: secrets.key in the data directory)",
  ],
  ["ROAMFLEET_SECRETS_KEY_FILE", "a file that holds it"],
  ["ROAMFLEET_DATA", "like --data"],
  ["ROAMFLEET_LISTEN", "like --listen"],
  ["ROAMFLEET_TLS", "like --tls"],
  ["ROAMFLEET_TLS_NAMES", "like --tls-name, with commas between the names"],
  ["ROAMFLEET_TLS_CERT", "like --tls-cert"],
  ["ROAMFLEET_TLS_KEY", "like --tls-key"],
  ["ROAMFLEET_NODE_LISTEN", "like --node-listen"],
  ["ROAMFLEET_NODE_ADDRESS", "like --node-address"],
  ["ROAMFLEET_BEHIND_PROXY", "like --behind-proxy"],
  ["ROAMFLEET_HOST_NAMES", "like --host-name, with commas between the names"],
  ["ROAMFLEET_DASHBOARD", "off: like --no-dashboard"],
  ["ROAMFLEET_LOG_LEVEL", "like --log-level"],
];

/** A limit without a meaning does not compile. */
export const LIMIT_MEANINGS: Readonly<Record<LimitName, string>> = {
  token_requests_per_minute: "requests a minute of one portal token at each server",
  token_burst: "requests of one portal token at once at each server",
  api_requests_per_org_per_minute:
    "requests a minute in one org of all its tokens and sessions at each server, and as many at once; not less than those of one token",
  unknown_requests_per_minute:
    "unknown tokens, enrolment keys and robot signatures, and wrong admin tokens, a minute from one address (IPv6: /64) at each server",
  database_connections: "connections of each server to the database",
  artifact_bytes_max:
    "bytes that the artifacts of one org may take together; what other servers are receiving in one request counts when it is complete",
  free_disk_bytes_min: "bytes that uploads leave free in the data directory",
  uploads_per_org_max: "uploads of one org that are not complete",
  upload_disk_share_percent:
    "percent of the free disk of the data directory that one org's uploads may take together while they are not complete, where there are other orgs",
  upload_silence_seconds: "seconds without a byte after which an upload that is not complete is dropped; it can be started again",
  log_retention_days: "days that log records are kept; whole days are dropped",
  health_retention_days: "days that robots' health over time is kept; whole days are dropped",
  timeline_retention_days: "days that entries of robots' timelines are kept; 0: for ever",
  audit_retention_days: "days that entries of the audit are kept; 0: for ever",
  deployment_event_retention_days: "days that the events of a deployment are kept after it ended; 0: as long as the deployment",
  deployment_retention_days:
    "days that a deployment is kept after it ended, with its robots' results and its Idempotency-Key, and longer while robots or a fleet have what it brought; 0: for ever",
  shell_recording_days: "days that recordings of shells are kept, at most as long as their sessions",
  shell_session_retention_days: "days that it stays known that there was a shell, with who opened it and how it ended; 0: for ever",
  shell_recording_bytes_max: "bytes that the recordings of one org's shells may take together; the oldest are dropped",
  log_bytes_per_org_max: "bytes that the log records of one org may take in the database; over it the oldest go; 0: no limit",
  log_robot_share_percent: "percent of log_bytes_per_org_max that the log records of one robot may take; over it its oldest go",
  log_bytes_per_robot_per_second:
    "bytes of log records, before they are compressed, that one robot may send a second; a robot that logs more is slowed, and its records wait in its spool",
  log_burst_bytes_per_robot: "bytes of log records that one robot may send at once, such as after a time without a link",
  deployment_expiry_hours: "hours after its start when a deployment gives up robots that have not begun",
  heartbeat_seconds: "seconds between signs of life of a robot; three missed ones end its link",
  health_seconds: "seconds between health snapshots of a robot",
  log_flush_ms: "milliseconds that a robot collects log records before it sends them",
  robots_max: "robots connected to each server",
  unauthenticated_links_max: "robots' connections to each server that have not proved themselves yet",
  link_accepts_per_second: "robots let in per second by each server; over it each is booked a time to come back; 0: no limit",
  followers_per_robot_max: "live log readers of one robot",
  streams_per_robot_max: "streams of one robot (logs, shells, cameras, …) that viewers have open; of one fleet's logs at each server",
  streams_per_org_max:
    "streams that viewers have open of those of one org's robots that are connected to one server, and of its fleets' logs there",
  streams_kept_for_shells: "of both, and of a robot's 64 streams over its link: the last so many are for shells only",
  event_streams_per_token_max: "open streams of events of one token at each server; each page of the dashboard takes one",
  event_streams_per_org_max: "open streams of events of one org at each server",
  org_requests_per_hour: "orgs that one address may ask each server for; 0: nobody may",
  pending_org_days: "after which an org that was not approved is deleted; 0: never",
  session_idle_hours: "until a session of a browser that is not used ends",
  session_hours: "until a session of a browser ends in any case",
  drain_seconds: "that a server which was told to stop goes on serving, while /readyz says so: until balancers have noticed",
};

const rows = (pairs: readonly (readonly [string, string])[]): string => {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, meaning]) => `  ${name.padEnd(width)}  ${meaning}`).join("\n");
};

/** What stands below the options in the help of `serve`. */
export const serveHelp = (): string => `
Limits and their defaults:
${rows(Object.entries(LIMIT_DEFAULTS).map(([name, value]) => [`${name}=${value}`, LIMIT_MEANINGS[name as LimitName]]))}

Environment (flags win):
${rows(SERVE_ENVIRONMENT)}`;
