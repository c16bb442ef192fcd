import type { Severity } from "@roamfleet/protocol";
import { formatMetricGate, type MetricGate, parseMetricGate } from "@roamfleet/protocol/metric-gate";
import type { Rollout } from "@roamfleet/protocol/routes";
import { type Flags, shellLine } from "../../ui/format.ts";
import { LABELS_WANTED, parseLabels, type Target } from "./target.ts";

export interface WaveDraft {
  /** React key of the wave. It stays the same when waves are reordered. */
  key: number;
  by: "percent" | "count" | "labels";
  amount: string;
  soak: string;
  gate: boolean;
  /** The least severity of incidents that pause the deployment; empty: none. */
  incidents: Severity | "";
  /** Metric gates, one per line. */
  metrics: string;
}

/** The form state of a new deployment: the texts of the fields. */
export interface Draft {
  waves: readonly WaveDraft[];
  threshold_by: "none" | "percent" | "count";
  threshold: string;
  min_decided: string;
  on_failure: "stop" | "pause" | "rollback";
  max_parallel: string;
  unavailable_by: "none" | "percent" | "count";
  unavailable: string;
  /** Groups to which the limit of unavailable robots applies separately: `site`, `label:KEY`, or empty for one group of all robots. */
  group_by: string;
  has_window: boolean;
  cron: string;
  time_zone: string;
  window_minutes: string;
  /** The value of `<input type=datetime-local>`, in the browser's time zone; empty: now. */
  scheduled_at: string;
  expires_in: string;
  max_attempts: string;
  verify: string;
}

export const EMPTY_DRAFT: Draft = {
  waves: [],
  threshold_by: "none",
  threshold: "",
  min_decided: "",
  on_failure: "stop",
  max_parallel: "",
  unavailable_by: "none",
  unavailable: "",
  group_by: "",
  has_window: false,
  cron: "0 2 * * 1-5",
  time_zone: "UTC",
  window_minutes: "60",
  scheduled_at: "",
  expires_in: "",
  max_attempts: "",
  verify: "",
};

/** Error messages by field. A field is named by its path in the API, such as `rollout.waves`. */
export type Errors = Record<string, string>;

export interface Written {
  rollout: Rollout;
  /** Start time as RFC 3339 in UTC; undefined: immediately. */
  scheduled_at: string | undefined;
  expires_seconds: number | undefined;
  errors: Errors;
}

const WHOLE = "Enter a whole number, 1 or more.";
const LENGTH = "Enter a duration such as 90s, 10m, 2h or 3d.";

/** Returns the fields that have a value. */
const defined = <T extends object>(fields: T) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as { [K in keyof T]?: Exclude<T[K], undefined> };

/** Parses fields and collects their errors. */
class Reader {
  readonly errors: Errors = {};

  whole(path: string, text: string, least = 1): number | undefined {
    const value = Number(text);
    if (text.trim() !== "" && Number.isSafeInteger(value) && value >= least) return value;
    return this.wrong(path, least === 0 ? "Enter a whole number, 0 or more." : WHOLE);
  }

  percent(path: string, text: string, zero = false): number | undefined {
    const value = Number(text);
    if (text.trim() !== "" && value <= 100 && (zero ? value >= 0 : value > 0)) return value;
    return this.wrong(path, zero ? "Enter a percentage from 0 to 100." : "Enter a percentage above 0, up to 100.");
  }

  seconds(path: string, text: string): number | undefined {
    return readSeconds(text) ?? this.wrong(path, LENGTH);
  }

  wrong(path: string, message: string): undefined {
    this.errors[path] = message;
  }
}

function readMetrics(reader: Reader, path: string, text: string): MetricGate[] | undefined {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const gates = lines.flatMap((line) => parseMetricGate(line) ?? []);
  if (gates.length < lines.length)
    return reader.wrong(path, "Enter one per line: NAME mean|max above|below VALUE, or NAME mean|max rise|fall PERCENT%.");
  return lines.length === 0 ? undefined : gates;
}

function readWave(
  reader: Reader,
  { by, amount, soak, gate, incidents, metrics }: WaveDraft,
  number: number,
): NonNullable<Rollout["waves"]>[number] {
  const path = `rollout.waves.${number}`;
  const soak_seconds = soak.trim() === "" ? undefined : reader.seconds(`${path}.soak_seconds`, soak);
  const percent = by === "percent" ? reader.percent(`${path}.percent`, amount) : undefined;
  const count = by === "count" ? reader.whole(`${path}.count`, amount) : undefined;
  const labels = by === "labels" ? (parseLabels(amount) ?? reader.wrong(`${path}.labels`, LABELS_WANTED)) : undefined;
  return defined({
    percent,
    count,
    labels,
    soak_seconds,
    gate: gate ? ("manual" as const) : undefined,
    gate_incidents: incidents || undefined,
    gate_metrics: readMetrics(reader, `${path}.gate_metrics`, metrics),
  });
}

function readThreshold(reader: Reader, draft: Draft): Rollout["failure_threshold"] | undefined {
  const { threshold_by, threshold, min_decided } = draft;
  if (threshold_by === "none") return undefined;
  const path = "rollout.failure_threshold";
  const percent = threshold_by === "percent" ? reader.percent(`${path}.percent`, threshold, true) : undefined;
  const count = threshold_by === "count" ? reader.whole(`${path}.count`, threshold, 0) : undefined;
  const decided = min_decided.trim() === "" ? undefined : reader.whole(`${path}.min_decided`, min_decided);
  return defined({ percent, count, min_decided: decided });
}

function readUnavailable(reader: Reader, { unavailable_by, unavailable, group_by }: Draft): Rollout["max_unavailable"] | undefined {
  if (unavailable_by === "none") return undefined;
  const path = "rollout.max_unavailable";
  const percent = unavailable_by === "percent" ? reader.percent(`${path}.percent`, unavailable) : undefined;
  const count = unavailable_by === "count" ? reader.whole(`${path}.count`, unavailable) : undefined;
  if (group_by === "label:") reader.wrong(`${path}.group_by`, "Enter the label whose values define the groups.");
  return defined({ percent, count, group_by: group_by || undefined });
}

function readWindow(reader: Reader, { has_window, cron, time_zone, window_minutes }: Draft): Rollout["window"] | undefined {
  if (!has_window) return undefined;
  const path = "rollout.window";
  if (cron.trim().split(/\s+/).length !== 5)
    reader.wrong(`${path}.cron`, "Enter five fields: minute hour day-of-month month day-of-week, such as 0 2 * * 1-5.");
  if (time_zone.trim() === "") reader.wrong(`${path}.time_zone`, "Enter a time zone, such as Europe/Berlin.");
  const duration_minutes = reader.whole(`${path}.duration_minutes`, window_minutes) ?? 1;
  return { cron: cron.trim(), time_zone: time_zone.trim(), duration_minutes };
}

/** Parses the start time to UTC. Returns undefined for now and for invalid input. */
function readSchedule(reader: Reader, text: string, now_ms: number): string | undefined {
  if (text === "") return undefined;
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return reader.wrong("scheduled_at", "Enter a date and a time.");
  if (at.getTime() <= now_ms) return reader.wrong("scheduled_at", "This time has passed. Leave the field empty to start now.");
  return at.toISOString();
}

/** Parses the form into an API request. With `kind` "robot", waves and the failure threshold are left out. Pure. */
export function readDraft(draft: Draft, kind: "robot" | "fleet", now_ms: number): Written {
  const reader = new Reader();
  const waves = kind === "fleet" ? draft.waves.map((wave, number) => readWave(reader, wave, number)) : [];
  const failure_threshold = kind === "fleet" ? readThreshold(reader, draft) : undefined;
  const max_parallel = draft.max_parallel.trim() === "" ? undefined : reader.whole("rollout.max_parallel", draft.max_parallel);
  const max_unavailable = readUnavailable(reader, draft);
  const window = readWindow(reader, draft);
  const max_attempts = draft.max_attempts.trim() === "" ? undefined : reader.whole("rollout.max_attempts", draft.max_attempts);
  const verify_seconds = draft.verify.trim() === "" ? undefined : reader.seconds("rollout.verify_seconds", draft.verify);
  const expires_seconds = draft.expires_in.trim() === "" ? undefined : reader.seconds("rollout.expires_at", draft.expires_in);
  const scheduled_at = readSchedule(reader, draft.scheduled_at, now_ms);
  const starts_ms = scheduled_at === undefined ? now_ms : Date.parse(scheduled_at);
  const decides_failures = waves.length > 0 || failure_threshold !== undefined;
  return {
    rollout: defined({
      waves: waves.length === 0 ? undefined : waves,
      max_parallel,
      max_unavailable,
      failure_threshold,
      on_failure: decides_failures && draft.on_failure !== "stop" ? draft.on_failure : undefined,
      window,
      expires_at: expires_seconds === undefined ? undefined : new Date(starts_ms + 1_000 * expires_seconds).toISOString(),
      max_attempts,
      verify_seconds,
    }),
    scheduled_at,
    expires_seconds,
    errors: reader.errors,
  };
}

/** Returns the field that an error of the API is about, from the path at the start of its message; undefined if it names no field. */
export function errorsOf(message: string): Errors | undefined {
  const path = /^((?:rollout|scheduled_at|release|robot_id|fleet_id|target_selector)(?:\.[\w]+)*)\b/.exec(message)?.[1];
  return path === undefined ? undefined : { [path]: message };
}

/** Returns the first error at one of the paths or below it. */
export function errorAt(errors: Errors, ...paths: readonly string[]): string | undefined {
  const found = Object.keys(errors).find((path) => paths.some((one) => path === one || path.startsWith(`${one}.`)));
  return found === undefined ? undefined : errors[found];
}

interface DeployRequest {
  target: Target;
  rollout: Rollout;
  scheduled_at?: string | undefined;
  /** Seconds from now until the deployment expires. `rollout` contains the same time as an absolute time. */
  expires_seconds?: number | undefined;
}

type Wave = NonNullable<Rollout["waves"]>[number];

/** Returns the equivalent `rf deploy` command. `release`: tag or ID. */
export const deployCommand = ({ release, ...request }: DeployRequest & { release: string }): string =>
  commandOf(request, { words: ["rf", "deploy", release, ...targetWords(request.target)], path: "/api/deployments", fields: { release } });

/** Returns the equivalent `rf configs deploy` command. `namespace`: the only one that is deployed; undefined: all. */
export function deployConfigCommand({ namespace, ...request }: DeployRequest & { namespace: string | undefined }): string {
  const only = namespace === undefined ? [] : ["--namespace", namespace];
  const words = ["rf", "configs", "deploy", ...targetWords(request.target), ...only];
  return commandOf(request, { words, path: "/api/configs/deployments", fields: namespace === undefined ? {} : { namespace } });
}

/**
 * Returns a command that deploys. Uses flags where possible. Otherwise (waves with different soak times or gates, the expiry of a scheduled
 * deployment) it passes a policy on standard input. Listed robots need the API itself, with the path and with `fields` in the body.
 */
function commandOf(
  { target, rollout, scheduled_at, expires_seconds }: DeployRequest,
  { words: begin, path, fields }: { words: readonly string[]; path: string; fields: object },
): string {
  if (target.kind === "selection" && target.selector.robot_ids !== undefined) {
    const body = { ...fields, target_selector: target.selector, ...(scheduled_at === undefined ? {} : { scheduled_at }), rollout };
    return `rf api POST ${path} --input - <<'END'\n${JSON.stringify(body)}\nEND`;
  }
  const words = [...begin];
  if (scheduled_at !== undefined) words.push("--scheduled-at", scheduled_at);
  const { expires_at, ...rest } = rollout;
  if (canBeFlags(rest) && (expires_at === undefined || (scheduled_at === undefined && expires_seconds !== undefined))) {
    const expires_in = expires_seconds === undefined || expires_at === undefined ? undefined : writeSeconds(expires_seconds);
    return shellLine(...words, { ...flagsOf(rest), "expires-in": expires_in });
  }
  return `${shellLine(...words)} --policy /dev/stdin <<'END'\n${JSON.stringify(rollout, null, 2)}\nEND`;
}

function targetWords(target: Target): string[] {
  if (target.kind !== "selection") return [`--${target.kind}`, target.id];
  const { site_id, fleet_id, labels } = target.selector;
  return [
    ...(site_id === undefined ? [] : ["--site", site_id]),
    ...(fleet_id === undefined ? [] : ["--fleet", fleet_id]),
    ...Object.entries(labels ?? {}).flatMap(([key, value]) => ["--label", `${key}=${value}`]),
  ];
}

const after = ({ soak_seconds = 0, gate = "auto", gate_incidents, gate_metrics }: Wave): string =>
  JSON.stringify([soak_seconds, gate, gate_incidents, gate_metrics]);

/** Whether flags can express the rollout: `--soak` and the flags of gates apply to all waves, and label values cannot contain commas. */
function canBeFlags({ waves }: Rollout): boolean {
  const [first, ...others] = waves ?? [];
  if (first === undefined) return true;
  if (others.some((wave) => after(wave) !== after(first))) return false;
  return (waves ?? []).every(({ labels }) => Object.values(labels ?? {}).every((value) => !value.includes(",")));
}

const amount = ({ percent, count }: { percent?: number; count?: number }): string => (percent === undefined ? `${count}` : `${percent}%`);

function waveFlag({ labels, ...size }: Wave): string {
  if (labels === undefined) return amount(size);
  return `labels:${Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",")}`;
}

function flagsOf(rollout: Rollout): Flags {
  const { waves = [], max_unavailable, failure_threshold: threshold, window, verify_seconds } = rollout;
  const soak = waves[0]?.soak_seconds ?? 0;
  const group_by = max_unavailable?.group_by === undefined ? "" : `/${max_unavailable.group_by}`;
  return {
    wave: waves.map(waveFlag),
    soak: soak > 0 && writeSeconds(soak),
    gate: waves[0]?.gate === "manual",
    "gate-incidents": waves[0]?.gate_incidents,
    "gate-metric": waves[0]?.gate_metrics?.map(formatMetricGate),
    "fail-threshold": threshold && amount(threshold),
    "min-decided": threshold?.min_decided,
    "on-failure": rollout.on_failure,
    "max-parallel": rollout.max_parallel,
    "max-unavailable": max_unavailable && `${amount(max_unavailable)}${group_by}`,
    window: window?.cron,
    "window-zone": window?.time_zone,
    "window-minutes": window?.duration_minutes,
    "max-attempts": rollout.max_attempts,
    verify: verify_seconds === undefined ? undefined : writeSeconds(verify_seconds),
  };
}

const LENGTHS: Record<string, number> = { s: 1, m: 60, min: 60, h: 3_600, d: 86_400 };
const SHORT = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
] as const;

/** Parses `90s`, `10m`, `2h`, `3d` to seconds, as `rf` does; undefined for other texts. */
export function readSeconds(text: string): number | undefined {
  const match = /^(\d{1,9})\s?(s|m|min|h|d)$/.exec(text.trim());
  return match === null ? undefined : Number(match[1]) * (LENGTHS[match[2] ?? ""] ?? 1);
}

/** Formats seconds for `rf` in the largest unit without remainder: 5,400 → `90m`. */
export function writeSeconds(seconds: number): string {
  for (const [unit, length] of SHORT) if (seconds >= length && seconds % length === 0) return `${seconds / length}${unit}`;
  return `${seconds}s`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** Formats the time left: "9:05", "1:02:09", "3 d 4 h"; undefined once it has passed. */
export function countdownText(until: string, now_ms: number): string | undefined {
  const left = Math.ceil((Date.parse(until) - now_ms) / 1_000);
  if (!(left > 0)) return undefined;
  const [days, hours, minutes, seconds] = [Math.floor(left / 86_400), Math.floor(left / 3_600) % 24, Math.floor(left / 60) % 60, left % 60];
  if (days > 0) return hours === 0 ? `${days} d` : `${days} d ${hours} h`;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}
