import type { FailpointOptions } from "@roamfleet/clock/failpoint";

import { isIP } from "node:net";
import { type NatsAddress, parseNatsUrl } from "./engines/bus/nats-address.ts";
import { readS3Url } from "./engines/blobs/s3-url.ts";
import type { S3Settings } from "./engines/blobs/s3-store.ts";
import { parseNetworks } from "./kernel/networks.ts";
import { type HostPort, parseAddress } from "./link/nodes/connect-node.ts";
import { type MapTiles, readMapTiles } from "./map-tiles.ts";
import { type MetricEndpoints, readMetricEndpoints } from "./metric-endpoints.ts";
import { readSecret, SettingsError } from "./secret-settings.ts";

export { SettingsError };

/** Settings of the server. This file is the only reader of the environment. */
export interface Settings {
  data_directory: string;
  listen: { host: string; port: number };
  tls: TlsSettings | undefined;
  /** Addresses and ranges of trusted proxies; empty without a proxy. If it is not empty, the server accepts connections only from them. */
  behind_proxy: readonly string[];
  /** Additional host names and addresses of this server, besides those that it detects. */
  host_names?: readonly string[];
  database_url: string | undefined;
  /** S3 store for artifacts. Undefined: the server stores artifacts in the data directory. */
  blobs?: S3Settings | undefined;
  admin_token: string | undefined;
  /** Master keys that encrypt secrets. If neither this nor `secrets_key_file` is set, the key is a file in the data directory. */
  secrets_key?: string | undefined;
  secrets_key_file?: string | undefined;
  /** The NATS server through which several servers on one database notify each other. Undefined: this is the only server. */
  bus?: NatsAddress | undefined;
  /** Listen address for other servers, and the address that they use (undefined: detected). Undefined: other servers cannot connect. */
  nodes?: { listen: HostPort; address: HostPort | undefined } | undefined;
  /** The mail server for alerts, and their sender. Undefined: channels of the kind email cannot be created. */
  smtp?: { url: string; from: string } | undefined;
  /** Ranges that are not public, to which alerts may be sent nevertheless. */
  alert_networks?: readonly string[];
  /** Where samples of robots are sent, and read back from. */
  metric_endpoints?: MetricEndpoints;
  /** The tile server of the dashboard's map. Undefined: the map has a grid only. */
  map_tiles?: MapTiles | undefined;
  log_level: string;
  limits: Limits;
  /** Directory of packages for robots, made by `npm run package`. Undefined: this server hosts none. */
  packages?: string | undefined;
  /** Serves the dashboard at `/`, and builds it at the start if it is missing or outdated. Default: no. */
  dashboard?: boolean;
  /** The failpoint at which the server crashes, and the file that records the crash. Only for crash tests, with --crash-at-failpoint. */
  failpoint?: FailpointOptions | undefined;
  /** True if ROAMFLEET_FAILPOINT is set without --crash-at-failpoint. The server then ignores the variable and logs a warning. */
  failpoint_ignored?: boolean;
}

/** `files`: certificate files that another program renews. `auto`: a certificate by the server's own CA, with additional `names`. */
export type TlsSettings = { mode: "files"; cert_file: string; key_file: string } | { mode: "auto"; names: readonly string[] };

/** Every limit with its default; `roamfleet serve --help` shows them as `--limit NAME=VALUE`. */
export const LIMIT_DEFAULTS = {
  token_requests_per_minute: 600,
  token_burst: 1_200,
  api_requests_per_org_per_minute: 12_000,
  unknown_requests_per_minute: 20,
  database_connections: 10,
  artifact_bytes_max: 50 * 1024 ** 3,
  free_disk_bytes_min: 256 * 1024 ** 2,
  uploads_per_org_max: 64,
  upload_disk_share_percent: 50,
  upload_silence_seconds: 600,
  log_retention_days: 14,
  health_retention_days: 7,
  metric_raw_retention_days: 7,
  metric_rollup_retention_days: 90,
  metric_series_per_robot_max: 500,
  timeline_retention_days: 180,
  audit_retention_days: 400,
  deployment_event_retention_days: 180,
  deployment_retention_days: 400,
  alert_delivery_retention_days: 30,
  incident_retention_days: 400,
  log_bytes_per_org_max: 20 * 1024 ** 3,
  log_robot_share_percent: 50,
  log_bytes_per_robot_per_second: 512 * 1024,
  log_burst_bytes_per_robot: 128 * 1024 ** 2,
  shell_recording_days: 90,
  shell_session_retention_days: 400,
  shell_recording_bytes_max: 10 * 1024 ** 3,
  deployment_expiry_hours: 7 * 24,
  heartbeat_seconds: 30,
  health_seconds: 15,
  log_flush_ms: 1_000,
  robots_max: 20_000,
  unauthenticated_links_max: 1_000,
  link_accepts_per_second: 500,
  followers_per_robot_max: 100,
  streams_per_robot_max: 500,
  streams_per_org_max: 2_000,
  streams_kept_for_shells: 8,
  event_streams_per_token_max: 64,
  event_streams_per_org_max: 1_000,
  org_requests_per_hour: 5,
  pending_org_days: 30,
  session_idle_hours: 12,
  session_hours: 7 * 24,
  drain_seconds: 0,
} as const;
export type LimitName = keyof typeof LIMIT_DEFAULTS;
export type Limits = Record<LimitName, number>;

/** Limits that may be 0, which means off or none. Any other limit of 0 would make the server unusable or make a timer fire continuously. */
const MAY_BE_ZERO: ReadonlySet<LimitName> = new Set([
  "free_disk_bytes_min",
  "timeline_retention_days",
  "audit_retention_days",
  "shell_session_retention_days",
  "deployment_event_retention_days",
  "deployment_retention_days",
  "alert_delivery_retention_days",
  "incident_retention_days",
  "log_bytes_per_org_max",
  "link_accepts_per_second",
  "followers_per_robot_max",
  "streams_kept_for_shells",
  "org_requests_per_hour",
  "pending_org_days",
  "drain_seconds",
]);

/** Allowed ranges of the limits that set timers. Node fires a timer of more than 2^31 ms after 1 ms. */
const TIMER_RANGES: Partial<Record<LimitName, readonly [min: number, max: number]>> = {
  heartbeat_seconds: [1, 3_600],
  health_seconds: [1, 24 * 3_600],
  log_flush_ms: [10, 60_000],
  drain_seconds: [0, 24 * 3_600],
};

const ADMIN_TOKEN_CHARACTERS_MIN = 16;

export interface ServeFlags {
  data?: string;
  listen?: string;
  tls?: string;
  tlsName?: string[];
  tlsCert?: string;
  tlsKey?: string;
  nodeListen?: string;
  nodeAddress?: string;
  behindProxy?: string;
  hostName?: string[];
  logLevel?: string;
  limit?: string[];
  packages?: string;
  /** False if --no-dashboard was given. */
  dashboard?: boolean;
  crashAtFailpoint?: boolean;
}

const LOG_LEVELS: readonly string[] = ["trace", "debug", "info", "warn", "error", "fatal", "silent"];
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\]|::1)$/;

/** Combines flags and environment. Throws SettingsError with a message for the person at the terminal. */
export function readSettings(flags: ServeFlags, env: NodeJS.ProcessEnv = process.env): Settings {
  const listen = readListen(flags.listen ?? env.ROAMFLEET_LISTEN ?? "127.0.0.1:7600");
  const tls = readTls(flags, env);
  const behind_proxy = readProxies(flags.behindProxy ?? env.ROAMFLEET_BEHIND_PROXY);
  if (!LOOPBACK.test(listen.host) && tls === undefined && behind_proxy.length === 0) {
    throw new SettingsError(
      `refusing to listen on ${listen.host} without TLS: tokens and shells would cross the network unencrypted.\n` +
        "Pass --tls auto (a certificate authority of this server), --tls-cert FILE and --tls-key FILE, " +
        "or --behind-proxy ADDRESS,… if a proxy in front of this server provides TLS.",
    );
  }
  const bus_url = readSecret("ROAMFLEET_BUS_URL", env);
  return {
    ...readStore(flags.data, env),
    blobs: readBlobs(env),
    listen,
    tls,
    behind_proxy,
    host_names: readHostNames("--host-name", flags.hostName ?? commaList(env.ROAMFLEET_HOST_NAMES)),
    admin_token: readAdminToken(env),
    secrets_key: env.ROAMFLEET_SECRETS_KEY || undefined,
    secrets_key_file: env.ROAMFLEET_SECRETS_KEY_FILE || undefined,
    bus: readBus(bus_url),
    nodes: readNodes(flags, env, bus_url !== undefined),
    smtp: readSmtp(env),
    alert_networks: readAlertNetworks(env.ROAMFLEET_ALERT_NETWORKS),
    metric_endpoints: readMetricEndpoints(env),
    map_tiles: readMapTiles(env),
    log_level: readLogLevel(flags.logLevel ?? (env.ROAMFLEET_LOG_LEVEL || "info")),
    limits: readLimits(flags.limit ?? []),
    packages: flags.packages ?? (env.ROAMFLEET_PACKAGES || undefined),
    dashboard: flags.dashboard !== false && readSwitch("ROAMFLEET_DASHBOARD", env),
    failpoint: flags.crashAtFailpoint === true ? readFailpoint(env) : undefined,
    failpoint_ignored: flags.crashAtFailpoint !== true && Boolean(env.ROAMFLEET_FAILPOINT),
  };
}

/** Returns all environment variables. Only `roamfleet doctor` uses them, because it reads the settings one by one. */
export const environment = (): NodeJS.ProcessEnv => process.env;

export const readDataDirectory = (data: string | undefined, env: NodeJS.ProcessEnv = process.env): string =>
  data ?? env.ROAMFLEET_DATA ?? ".roamfleet";

/** Reads the data directory and the database URL, for commands other than `serve`. */
export function readStore(
  data: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
): Pick<Settings, "data_directory" | "database_url"> {
  return { data_directory: readDataDirectory(data, env), database_url: readSecret("DATABASE_URL", env) };
}

/** Reads the admin token. Throws if it is so short that it could be guessed: admin routes give access to every org. */
function readAdminToken(env: NodeJS.ProcessEnv): string | undefined {
  const token = readSecret("SERVICE_ADMIN_TOKEN", env);
  if (token === undefined) return undefined;
  if (token.length < ADMIN_TOKEN_CHARACTERS_MIN)
    throw new SettingsError(
      `SERVICE_ADMIN_TOKEN has fewer than ${ADMIN_TOKEN_CHARACTERS_MIN} characters and could be guessed: set it to what \`openssl rand -hex 32\` prints`,
    );
  if (token.startsWith("rf_")) throw new SettingsError("SERVICE_ADMIN_TOKEN begins with rf_, like portal tokens: set it to another value");
  return token;
}

/** Reads the S3 store for artifacts. Undefined: the data directory stores them. Error messages do not contain the URL. */
export function readBlobs(env: NodeJS.ProcessEnv = process.env): S3Settings | undefined {
  const url = env.ROAMFLEET_BLOBS_URL;
  if (!url) return undefined;
  const { AWS_ACCESS_KEY_ID: access_key_id, AWS_SECRET_ACCESS_KEY: secret_access_key, AWS_SESSION_TOKEN: session_token } = env;
  if (Boolean(access_key_id) !== Boolean(secret_access_key))
    throw new SettingsError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set; one of them is missing");
  try {
    const place = readS3Url(url);
    const region = place.region ?? (env.AWS_REGION || env.AWS_DEFAULT_REGION || "us-east-1");
    const credentials =
      access_key_id && secret_access_key ? { access_key_id, secret_access_key, session_token: session_token || undefined } : undefined;
    return { ...place, region, credentials };
  } catch (error) {
    throw new SettingsError(`ROAMFLEET_BLOBS_URL: ${(error as Error).message}`);
  }
}

function readLogLevel(level: string): string {
  if (!LOG_LEVELS.includes(level)) throw new SettingsError(`--log-level ${level}: expected one of ${LOG_LEVELS.join(", ")}`);
  return level;
}

/** Returns true unless the variable is "off". */
function readSwitch(name: string, env: NodeJS.ProcessEnv): boolean {
  const value = env[name] || "on";
  if (value !== "on" && value !== "off") throw new SettingsError(`${name}=${value}: expected on or off`);
  return value === "on";
}

/** Parses the bus URL. Error messages do not contain the URL, because it may contain a password. */
function readBus(url: string | undefined): NatsAddress | undefined {
  if (!url) return undefined;
  const address = parseNatsUrl(url);
  if (address === undefined)
    throw new SettingsError(
      "ROAMFLEET_BUS_URL: expected nats://[USER:PASSWORD@]HOST[:4222][,HOST…][/PREFIX] or tls://…; special characters in user and " +
        "password must be percent-encoded (@ is %40), and the prefix may contain letters, digits, - and _",
    );
  return address;
}

/** Reads the mail server for alerts. Error messages do not contain the URL, because it may contain a password. */
export function readSmtp(env: NodeJS.ProcessEnv = process.env): Settings["smtp"] {
  const url = readSecret("ROAMFLEET_SMTP_URL", env);
  const from = env.ROAMFLEET_SMTP_FROM || undefined;
  if (url === undefined && from === undefined) return undefined;
  if (url === undefined || from === undefined)
    throw new SettingsError("ROAMFLEET_SMTP_URL and ROAMFLEET_SMTP_FROM must both be set; one of them is missing");
  if (!/^smtps?:$/.test(URL.parse(url)?.protocol ?? ""))
    throw new SettingsError("ROAMFLEET_SMTP_URL: expected smtp://[USER:PASSWORD@]HOST[:587] or smtps://…");
  if (!/^[^\s@]+@[^\s@]+$/.test(from)) throw new SettingsError("ROAMFLEET_SMTP_FROM: expected an email address");
  return { url, from };
}

export function readAlertNetworks(text: string | undefined): readonly string[] {
  if (text === undefined || text === "") return [];
  const networks = parseNetworks(text);
  if (networks === undefined) throw new SettingsError(`ROAMFLEET_ALERT_NETWORKS=${text}: expected ranges, for example 10.0.0.0/8`);
  return networks;
}

/** Validates the settings for connections of other servers. Returns undefined without a bus, because there are no other servers then. */
function readNodes(flags: ServeFlags, env: NodeJS.ProcessEnv, has_bus: boolean): Settings["nodes"] {
  const read = (flag: string, text: string): HostPort => {
    const address = parseAddress(text);
    if (address === undefined) throw new SettingsError(`${flag} ${text}: expected HOST:PORT, for example 10.0.0.7:7601`);
    return address;
  };
  const address = flags.nodeAddress ?? (env.ROAMFLEET_NODE_ADDRESS || undefined);
  const nodes = {
    listen: read("--node-listen", flags.nodeListen ?? (env.ROAMFLEET_NODE_LISTEN || "0.0.0.0:7601")),
    address: address === undefined ? undefined : read("--node-address", address),
  };
  return has_bus ? nodes : undefined;
}

function readFailpoint({ ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log_file }: NodeJS.ProcessEnv): Settings["failpoint"] {
  if (!spec || !log_file)
    throw new SettingsError(
      "--crash-at-failpoint is for tests: it needs ROAMFLEET_FAILPOINT=NAME, and ROAMFLEET_FAILPOINT_LOG=FILE to record the crash",
    );
  return { spec, log_file };
}

function readListen(text: string): { host: string; port: number } {
  const match = /^(.+):(\d{1,5})$/.exec(text);
  const port = Number(match?.[2]);
  if (match?.[1] === undefined || port > 65_535)
    throw new SettingsError(`--listen ${text}: expected HOST:PORT, for example 127.0.0.1:7600`);
  return { host: match[1].replace(/^\[(.*)\]$/, "$1"), port };
}

/** Splits a comma-separated value. An empty variable counts as unset. */
const commaList = (text: string | undefined): string[] => (text || undefined)?.split(",").map((one) => one.trim()) ?? [];

function readHostNames(flag: string, names: readonly string[]): readonly string[] {
  const wrong = names.find((name) => isIP(name) === 0 && !/^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*$/i.test(name));
  if (wrong !== undefined) throw new SettingsError(`${flag} ${wrong}: expected a host name or an address, without scheme and port`);
  return names;
}

function readTls(flags: ServeFlags, env: NodeJS.ProcessEnv): TlsSettings | undefined {
  const mode = flags.tls ?? (env.ROAMFLEET_TLS || undefined);
  const cert_file = flags.tlsCert ?? (env.ROAMFLEET_TLS_CERT || undefined);
  const key_file = flags.tlsKey ?? (env.ROAMFLEET_TLS_KEY || undefined);
  const names = flags.tlsName ?? commaList(env.ROAMFLEET_TLS_NAMES);
  if (mode !== undefined && mode !== "auto")
    throw new SettingsError(`--tls ${mode}: the only value is auto; for your own files use --tls-cert FILE and --tls-key FILE`);
  if (mode === "auto" && (cert_file ?? key_file) !== undefined)
    throw new SettingsError("--tls auto creates its own certificate: remove --tls-cert and --tls-key, or remove --tls auto");
  if (mode === undefined && names.length > 0) throw new SettingsError("--tls-name can only be used with --tls auto");
  readHostNames("--tls-name", names);
  if (mode === "auto") return { mode, names };
  if (cert_file === undefined && key_file === undefined) return undefined;
  if (cert_file === undefined || key_file === undefined)
    throw new SettingsError("--tls-cert and --tls-key must both be given; one of them is missing");
  return { mode: "files", cert_file, key_file };
}

function readProxies(text: string | undefined): readonly string[] {
  if (text === undefined || text === "") return [];
  const networks = parseNetworks(text);
  if (networks === undefined) {
    throw new SettingsError(
      `--behind-proxy ${text}: expected the addresses of the proxies, for example --behind-proxy 10.0.0.0/8,127.0.0.1`,
    );
  }
  const anyone = networks.find((network) => network.endsWith("/0"));
  if (anyone !== undefined)
    throw new SettingsError(`--behind-proxy ${anyone} contains every address: specify only the addresses of the proxy`);
  return networks;
}

function readLimits(given: readonly string[]): Limits {
  const limits: Limits = { ...LIMIT_DEFAULTS };
  for (const one of given) {
    const [name = "", text = ""] = one.split("=", 2);
    if (!(name in LIMIT_DEFAULTS))
      throw new SettingsError(`--limit ${one}: unknown limit; valid limits are ${Object.keys(LIMIT_DEFAULTS).join(", ")}`);
    limits[name as LimitName] = readLimit(name as LimitName, text, one);
  }
  return limits;
}

/** Parses the value of a limit. `given` is the option as the user typed it, for the error message. */
function readLimit(name: LimitName, text: string, given: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0) throw new SettingsError(`--limit ${given}: expected ${name}=NUMBER`);
  const [min, max] = TIMER_RANGES[name] ?? [0, Infinity];
  if (value < min || value > max) throw new SettingsError(`--limit ${given}: ${name} must be from ${min} to ${max}`);
  if (value === 0 && !MAY_BE_ZERO.has(name)) throw new SettingsError(`--limit ${given}: ${name} must be more than 0`);
  return value;
}
