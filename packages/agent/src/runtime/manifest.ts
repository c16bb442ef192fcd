import fs from "node:fs";
import path from "node:path";
import { METRICS_PATH_DEFAULT } from "../metrics/scrape-address.ts";
import { StepFailure } from "./failure.ts";
import {
  MANIFEST_ARGUMENTS_MAX,
  MANIFEST_BYTES_MAX,
  MANIFEST_ENV_MAX,
  STOP_TIMEOUT_SECONDS_DEFAULT,
  STOP_TIMEOUT_SECONDS_MAX,
} from "./limits.ts";

export type HealthCheck =
  | { http: { url: string; expect_status: number } }
  | { command: string[] }
  | { file: { path: string; max_age_seconds: number } };

/** Limits of all processes of an app together; null: none. */
export interface ResourceLimits {
  memory_bytes: number | null;
  /** Number of processors that the app may use at the same time, such as 1.5. */
  cpus: number | null;
  /** Number of processes and threads. */
  pids: number | null;
}

/** Where a program serves its metrics. */
export interface MetricsPlace {
  port: number;
  path: string;
}

/** The content of an app bundle's `roamfleet.json`. */
export interface BundleManifest {
  start: string[];
  env: Record<string, string>;
  health: HealthCheck | null;
  stop_timeout_seconds: number;
  limits: ResourceLimits;
  /** Where the program serves its metrics in the text format of Prometheus, on 127.0.0.1; null: nowhere. */
  metrics: MetricsPlace | null;
  /** How the workload is notified of a new config; null: it watches the file. */
  reload: { signal: NodeJS.Signals } | null;
}

export interface FileManifest {
  path: string | null;
  mode: number;
  reload: { command: string[] } | { signal: NodeJS.Signals; app: string } | null;
}

const MANIFEST_NAME = "roamfleet.json";
const RELOAD_SIGNALS: readonly string[] = ["SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM", "SIGCONT", "SIGWINCH"];

export const bad = (field: string, why: string): StepFailure => new StepFailure("rejected_by_robot", `manifest: ${field} ${why}`);

export type Fields = Record<string, unknown>;

export function object(value: unknown, field: string, known: readonly string[]): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw bad(field, "must be an object");
  for (const key of Object.keys(value)) {
    if (!known.includes(key))
      throw bad(field === MANIFEST_NAME ? JSON.stringify(key) : `${field}.${key}`, `is unknown; known are ${known.join(", ")}`);
  }
  return value as Fields;
}

export function text(value: unknown, field: string): string {
  if (typeof value !== "string" || value === "") throw bad(field, "must be a non-empty string");
  if (value.includes("\0")) throw bad(field, "must not have a NUL");
  return value;
}

export function argv(value: unknown, field: string): string[] {
  if (value === undefined || value === null) throw bad(field, "is missing");
  if (!Array.isArray(value) || value.length === 0) throw bad(field, "must be a list of strings, the program first");
  if (value.length > MANIFEST_ARGUMENTS_MAX) throw bad(field, `must have at most ${MANIFEST_ARGUMENTS_MAX} items`);
  return value.map((item: unknown, index) => {
    if (index === 0) return text(item, `${field}[0]`);
    if (typeof item !== "string" || item.includes("\0")) throw bad(`${field}[${index}]`, "must be a string without NUL");
    return item;
  });
}

export function number(value: unknown, field: string, low: number, high: number): number {
  if (typeof value !== "number" || !Number.isFinite(value) || value < low || value > high)
    throw bad(field, `must be a number from ${low} to ${high}`);
  return value;
}

export function whole(value: unknown, field: string, low: number, high: number): number {
  const read = number(value, field, low, high);
  if (!Number.isInteger(read)) throw bad(field, "must be a whole number");
  return read;
}

export const given = (value: unknown): boolean => value !== undefined && value !== null;

const MEMORY_BYTES_MIN = 6 * 1024 * 1024;
const PIDS_MAX = 4_194_304;

/** Validates the field `limits` of a manifest. An absent limit is null. */
export function resourceLimits(value: unknown): ResourceLimits {
  const fields = given(value) ? object(value, "limits", ["memory_bytes", "cpus", "pids"]) : {};
  const { memory_bytes, cpus, pids } = fields;
  return {
    memory_bytes: given(memory_bytes) ? whole(memory_bytes, "limits.memory_bytes", MEMORY_BYTES_MIN, Number.MAX_SAFE_INTEGER) : null,
    cpus: given(cpus) ? number(cpus, "limits.cpus", 0.01, 1_024) : null,
    pids: given(pids) ? whole(pids, "limits.pids", 1, PIDS_MAX) : null,
  };
}

export function environment(value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw bad("env", "must be an object of strings");
  const entries = Object.entries(value);
  if (entries.length > MANIFEST_ENV_MAX) throw bad("env", `must have at most ${MANIFEST_ENV_MAX} fields`);
  for (const [name, content] of entries) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw bad(`env.${name}`, "is not a name for an environment variable");
    if (name.startsWith("ROAMFLEET_")) throw bad(`env.${name}`, "is reserved for the agent");
    if (typeof content !== "string" || content.includes("\0")) throw bad(`env.${name}`, "must be a string without NUL");
  }
  return Object.fromEntries(entries) as Record<string, string>;
}

export function httpUrl(value: unknown): string {
  const url = text(value, "health.http.url");
  const protocol = URL.parse(url)?.protocol;
  if (protocol !== "http:" && protocol !== "https:") throw bad("health.http.url", "must be an http or https address");
  return url;
}

export const stopTimeout = (value: unknown): number =>
  number(value ?? STOP_TIMEOUT_SECONDS_DEFAULT, "stop_timeout_seconds", 0, STOP_TIMEOUT_SECONDS_MAX);

function healthCheck(value: unknown): HealthCheck | null {
  if (value === undefined || value === null) return null;
  const fields = object(value, "health", ["http", "command", "file"]);
  const kinds = Object.keys(fields);
  if (kinds.length !== 1) throw bad("health", "must have exactly one of http, command, file");
  if (fields["command"] !== undefined) return { command: argv(fields["command"], "health.command") };
  if (fields["http"] !== undefined) {
    const http = object(fields["http"], "health.http", ["url", "expect_status"]);
    return {
      http: { url: httpUrl(http["url"]), expect_status: number(http["expect_status"] ?? 200, "health.http.expect_status", 100, 599) },
    };
  }
  const file = object(fields["file"], "health.file", ["path", "max_age_seconds"]);
  return {
    file: {
      path: text(file["path"], "health.file.path"),
      max_age_seconds: number(file["max_age_seconds"], "health.file.max_age_seconds", 0.001, 86_400),
    },
  };
}

export function signalName(value: unknown, field: string): NodeJS.Signals {
  const name = text(value, field);
  if (!RELOAD_SIGNALS.includes(name)) throw bad(field, `must be one of ${RELOAD_SIGNALS.join(", ")}`);
  return name as NodeJS.Signals;
}

/** Validates the field `metrics` of a manifest. */
export function metricsPlace(value: unknown): MetricsPlace | null {
  if (!given(value)) return null;
  const { port, path: place } = object(value, "metrics", ["port", "path"]);
  const read = text(place ?? METRICS_PATH_DEFAULT, "metrics.path");
  if (!/^\/[!-~]*$/.test(read)) throw bad("metrics.path", "must begin with / and have no spaces");
  return { port: whole(port, "metrics.port", 1, 65_535), path: read };
}

/** Validates `roamfleet.json`; throws StepFailure that names the field. */
export function parseBundleManifest(value: unknown): BundleManifest {
  const fields = object(value, MANIFEST_NAME, ["start", "env", "health", "stop_timeout_seconds", "limits", "metrics", "reload"]);
  const reload = fields["reload"] ?? null;
  return {
    start: argv(fields["start"], "start"),
    env: environment(fields["env"]),
    health: healthCheck(fields["health"]),
    stop_timeout_seconds: stopTimeout(fields["stop_timeout_seconds"]),
    limits: resourceLimits(fields["limits"]),
    metrics: metricsPlace(fields["metrics"]),
    reload:
      reload === null || reload === "none" ? null : { signal: signalName(object(reload, "reload", ["signal"])["signal"], "reload.signal") },
  };
}

export function readBundleManifest(directory: string): BundleManifest {
  const file = path.join(directory, MANIFEST_NAME);
  let content: string;
  try {
    const size = fs.lstatSync(file).size;
    if (size > MANIFEST_BYTES_MAX) throw bad(MANIFEST_NAME, `is larger than ${MANIFEST_BYTES_MAX} bytes`);
    content = fs.readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof StepFailure) throw error;
    throw bad(MANIFEST_NAME, "is missing at the root of the bundle");
  }
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    throw bad(MANIFEST_NAME, "is not JSON");
  }
  return parseBundleManifest(value);
}

/**
 * Validates the manifest of a `file` release. If it is null or absent, the file is installed below the state
 * directory.
 */
export function parseFileManifest(value: unknown): FileManifest {
  const fields = value === undefined || value === null ? {} : object(value, MANIFEST_NAME, ["path", "mode", "reload"]);
  const place = fields["path"] ?? null;
  if (place !== null && !path.isAbsolute(text(place, "path"))) throw bad("path", "must be absolute");
  const reload = fields["reload"] ?? null;
  return {
    path: place === null ? null : path.normalize(text(place, "path")),
    mode: fileMode(fields["mode"]),
    reload: reload === null ? null : fileReload(reload),
  };
}

function fileMode(value: unknown): number {
  if (value === undefined || value === null) return 0o644;
  const mode = typeof value === "string" && /^0?[0-7]{3}$/.test(value) ? Number.parseInt(value, 8) : value;
  if (typeof mode !== "number" || !Number.isInteger(mode) || mode < 0 || mode > 0o777)
    throw bad("mode", 'must be permissions such as "0644"');
  return mode;
}

function fileReload(value: unknown): FileManifest["reload"] {
  const fields = object(value, "reload", ["command", "signal", "app"]);
  if (fields["command"] !== undefined) return { command: argv(fields["command"], "reload.command") };
  return { signal: signalName(fields["signal"], "reload.signal"), app: text(fields["app"] ?? "main", "reload.app") };
}
