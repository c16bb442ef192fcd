import type { ContainerManifest } from "@roamfleet/protocol/container-manifest";
import path from "node:path";
import { MANIFEST_ARGUMENTS_MAX, MANIFEST_ENV_MAX } from "../limits.ts";
import {
  argv,
  bad,
  environment,
  type Fields,
  given,
  httpUrl,
  metricsPlace,
  type MetricsPlace,
  object,
  type ResourceLimits,
  resourceLimits,
  signalName,
  stopTimeout,
  text,
  whole,
} from "../manifest.ts";

export type ContainerHealthCheck =
  | { http: { url: string; expect_status: number } }
  | { http: { port: number; path: string; expect_status: number } }
  | { command: string[] }
  | { log: { pattern: string } };

/** A validated manifest in which every absent field has its default. */
export interface ContainerSpec {
  /** The entrypoint; null: use the entrypoint of the image. */
  entrypoint: string[] | null;
  command: string[] | null;
  env: Record<string, string>;
  ports: { container: number; host: number | null; host_address: string | null; protocol: "tcp" | "udp" }[];
  mounts: { type: "bind" | "volume" | "tmpfs"; source: string | null; target: string; read_only: boolean; size_bytes: number | null }[];
  devices: { host: string; container: string; permissions: string }[];
  host_network: boolean;
  restart: { policy: "always" | "on_failure" | "never"; max_retries: number | null };
  limits: ResourceLimits;
  ulimits: { name: string; soft: number; hard: number }[];
  health: ContainerHealthCheck | null;
  /** Where the program serves its metrics; the port is the container's. */
  metrics: MetricsPlace | null;
  replace: "after" | "beside";
  stop_timeout_seconds: number;
  reload: { signal: NodeJS.Signals } | { command: string[] } | null;
}

/** Names of the manifest's fields. The type is shared with the server, so that the compiler keeps both in sync. */
const FIELDS = {
  entrypoint: true,
  command: true,
  env: true,
  ports: true,
  mounts: true,
  devices: true,
  host_network: true,
  restart: true,
  limits: true,
  ulimits: true,
  health: true,
  metrics: true,
  replace: true,
  stop_timeout_seconds: true,
  reload: true,
} as const satisfies Record<keyof Required<ContainerManifest>, true>;

const PORTS_MAX = 256;
const MOUNTS_MAX = 64;
const DEVICES_MAX = 64;
const RETRIES_MAX = 1_000;
const PATTERN_CHARACTERS_MAX = 500;
const ULIMITS = /^(?:as|core|cpu|data|fsize|locks|memlock|msgqueue|nice|nofile|nproc|rss|rtprio|rttime|sigpending|stack)$/;

/**
 * Validates the manifest of a `container_image` release and adds defaults; null or absent: the image's own settings apply. Throws
 * StepFailure that names the field.
 */
export function readContainerManifest(value: unknown): ContainerSpec {
  const fields = given(value) ? object(value, "container", Object.keys(FIELDS)) : {};
  const host_network = flag(fields["host_network"], "host_network");
  const ports = list(fields["ports"], "ports", PORTS_MAX).map(readPort);
  if (host_network && ports.length > 0) throw bad("ports", "cannot be used with host_network: the container uses the robot's ports");
  return {
    entrypoint: given(fields["entrypoint"]) ? argv(fields["entrypoint"], "entrypoint") : null,
    command: given(fields["command"]) ? readCommand(fields["command"]) : null,
    env: environment(fields["env"]),
    ports,
    mounts: list(fields["mounts"], "mounts", MOUNTS_MAX).map(readMount),
    devices: list(fields["devices"], "devices", DEVICES_MAX).map(readDevice),
    host_network,
    restart: readRestart(fields["restart"]),
    limits: resourceLimits(fields["limits"]),
    ulimits: readUlimits(fields["ulimits"]),
    health: readHealth(fields["health"]),
    metrics: metricsPlace(fields["metrics"]),
    replace: oneOf(fields["replace"] ?? "after", "replace", ["after", "beside"]),
    stop_timeout_seconds: stopTimeout(fields["stop_timeout_seconds"]),
    reload: readReload(fields["reload"]),
  };
}

function list(value: unknown, field: string, most: number): unknown[] {
  if (!given(value)) return [];
  if (!Array.isArray(value)) throw bad(field, "must be a list");
  if (value.length > most) throw bad(field, `must have at most ${most} items`);
  return value;
}

function flag(value: unknown, field: string): boolean {
  if (!given(value)) return false;
  if (typeof value !== "boolean") throw bad(field, "must be true or false");
  return value;
}

function oneOf<T extends string>(value: unknown, field: string, known: readonly T[]): T {
  const found = known.find((one) => one === value);
  if (found === undefined) throw bad(field, `must be one of ${known.join(", ")}`);
  return found;
}

const port = (value: unknown, field: string): number => whole(value, field, 1, 65_535);

function absolute(value: unknown, field: string): string {
  const place = text(value, field);
  if (!path.isAbsolute(place) || place.split("/").includes("..")) throw bad(field, "must be an absolute path without ..");
  return path.normalize(place);
}

/** Validates the arguments of the entrypoint. Unlike an entrypoint, they may be an empty list or contain empty strings. */
function readCommand(value: unknown): string[] {
  return list(value, "command", MANIFEST_ARGUMENTS_MAX).map((item, index) => {
    if (typeof item !== "string" || item.includes("\0")) throw bad(`command[${index}]`, "must be a string without NUL");
    return item;
  });
}

function readPort(value: unknown, index: number): ContainerSpec["ports"][number] {
  const field = `ports[${index}]`;
  const fields = object(value, field, ["container", "host", "host_address", "protocol"]);
  return {
    container: port(fields["container"], `${field}.container`),
    host: given(fields["host"]) ? port(fields["host"], `${field}.host`) : null,
    host_address: given(fields["host_address"]) ? text(fields["host_address"], `${field}.host_address`) : null,
    protocol: oneOf(fields["protocol"] ?? "tcp", `${field}.protocol`, ["tcp", "udp"]),
  };
}

function readMount(value: unknown, index: number): ContainerSpec["mounts"][number] {
  const field = `mounts[${index}]`;
  const fields = object(value, field, ["type", "source", "target", "read_only", "size_bytes"]);
  const type = oneOf(fields["type"], `${field}.type`, ["bind", "volume", "tmpfs"]);
  if ((type === "tmpfs") === given(fields["source"]))
    throw bad(`${field}.source`, type === "tmpfs" ? "cannot be used with tmpfs" : "is missing");
  if (type !== "tmpfs" && given(fields["size_bytes"])) throw bad(`${field}.size_bytes`, "can only be used with tmpfs");
  return {
    type,
    source: type === "tmpfs" ? null : mountSource(type, fields, `${field}.source`),
    target: absolute(fields["target"], `${field}.target`),
    read_only: flag(fields["read_only"], `${field}.read_only`),
    size_bytes: given(fields["size_bytes"]) ? whole(fields["size_bytes"], `${field}.size_bytes`, 4_096, Number.MAX_SAFE_INTEGER) : null,
  };
}

function mountSource(type: "bind" | "volume", { source }: Fields, field: string): string {
  if (type === "bind") return absolute(source, field);
  const name = text(source, field);
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/.test(name)) throw bad(field, "must be the name of a volume");
  return name;
}

function readDevice(value: unknown, index: number): ContainerSpec["devices"][number] {
  const field = `devices[${index}]`;
  const fields = object(value, field, ["host", "container", "permissions"]);
  const host = absolute(fields["host"], `${field}.host`);
  if (!host.startsWith("/dev/")) throw bad(`${field}.host`, "must be below /dev");
  const permissions = text(fields["permissions"] ?? "rwm", `${field}.permissions`);
  if (!/^(?!.*(.).*\1)[rwm]{1,3}$/.test(permissions)) throw bad(`${field}.permissions`, "must be some of the letters r, w and m");
  return { host, container: given(fields["container"]) ? absolute(fields["container"], `${field}.container`) : host, permissions };
}

function readRestart(value: unknown): ContainerSpec["restart"] {
  const fields = given(value) ? object(value, "restart", ["policy", "max_retries"]) : {};
  const policy = oneOf(fields["policy"] ?? "always", "restart.policy", ["always", "on_failure", "never"]);
  if (!given(fields["max_retries"])) return { policy, max_retries: null };
  if (policy !== "on_failure") throw bad("restart.max_retries", "can only be used with on_failure");
  return { policy, max_retries: whole(fields["max_retries"], "restart.max_retries", 1, RETRIES_MAX) };
}

function readUlimits(value: unknown): ContainerSpec["ulimits"] {
  if (!given(value)) return [];
  if (typeof value !== "object" || Array.isArray(value)) throw bad("ulimits", "must be an object");
  const entries = Object.entries(value as Fields).filter(([, limit]) => given(limit));
  if (entries.length > MANIFEST_ENV_MAX) throw bad("ulimits", "are too many");
  return entries.map(([name, limit]) => {
    if (!ULIMITS.test(name)) throw bad(`ulimits.${name}`, "is unknown");
    const { soft, hard } = object(limit, `ulimits.${name}`, ["soft", "hard"]);
    return {
      name,
      soft: whole(soft, `ulimits.${name}.soft`, -1, Number.MAX_SAFE_INTEGER),
      hard: whole(hard, `ulimits.${name}.hard`, -1, Number.MAX_SAFE_INTEGER),
    };
  });
}

function readHealth(value: unknown): ContainerHealthCheck | null {
  if (!given(value)) return null;
  const fields = object(value, "health", ["http", "command", "log"]);
  const kinds = Object.keys(fields).filter((kind) => given(fields[kind]));
  if (kinds.length !== 1) throw bad("health", "must have exactly one of http, command, log");
  if (given(fields["command"])) return { command: argv(fields["command"], "health.command") };
  if (given(fields["http"])) {
    const http = readHttp(fields["http"]);
    return "url" in http ? { http } : { http };
  }
  const pattern = text(object(fields["log"], "health.log", ["pattern"])["pattern"], "health.log.pattern");
  if (pattern.length > PATTERN_CHARACTERS_MAX) throw bad("health.log.pattern", `must have at most ${PATTERN_CHARACTERS_MAX} characters`);
  return { log: { pattern } };
}

function readHttp(value: unknown): { url: string; expect_status: number } | { port: number; path: string; expect_status: number } {
  const fields = object(value, "health.http", ["url", "port", "path", "expect_status"]);
  const expect_status = whole(fields["expect_status"] ?? 200, "health.http.expect_status", 100, 599);
  if (given(fields["url"]) === given(fields["port"])) throw bad("health.http", "must have exactly one of url, port");
  if (given(fields["port"])) {
    const place = text(fields["path"] ?? "/", "health.http.path");
    if (!/^\/[^\s]*$/.test(place)) throw bad("health.http.path", "must begin with / and have no spaces");
    return { port: port(fields["port"], "health.http.port"), path: place, expect_status };
  }
  if (given(fields["path"])) throw bad("health.http.path", "can only be used with port; include it in url");
  return { url: httpUrl(fields["url"]), expect_status };
}

function readReload(value: unknown): ContainerSpec["reload"] {
  if (!given(value)) return null;
  const fields = object(value, "reload", ["signal", "command"]);
  if (given(fields["signal"]) === given(fields["command"])) throw bad("reload", "must have exactly one of signal, command");
  if (given(fields["command"])) return { command: argv(fields["command"], "reload.command") };
  return { signal: signalName(fields["signal"], "reload.signal") };
}
