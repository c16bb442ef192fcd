import { readFile } from "node:fs/promises";
import { SEVERITIES, type Severity } from "@roamfleet/protocol";
import { type MetricGate, parseMetricGate } from "@roamfleet/protocol/metric-gate";
import type { Rollout } from "@roamfleet/protocol/routes";
import { Command, InvalidArgumentError, Option } from "commander";
import { parse } from "yaml";
import { collect, wholeNumber } from "./command.ts";
import { seconds } from "./duration.ts";
import { usage } from "./failure.ts";

export interface RolloutFlags {
  policy?: string;
  wave?: string[];
  gate?: true;
  gateIncidents?: Severity;
  gateMetric?: MetricGate[];
  soak?: number;
  maxParallel?: number;
  maxUnavailable?: NonNullable<Rollout["max_unavailable"]>;
  failThreshold?: { percent: number } | { count: number };
  minDecided?: number;
  onFailure?: NonNullable<Rollout["on_failure"]>;
  window?: string;
  windowZone?: string;
  windowMinutes?: number;
  expiresIn?: number;
  maxAttempts?: number;
  verify?: number;
}

/** What the rollout options of each kind of deployment are about. */
const KINDS = {
  release: { what: "release", promote: "rf deployments promote", begun: "begun to install", on_failure: ["stop", "pause", "rollback"] },
  config: { what: "config", promote: "rf configs promote", begun: "received", on_failure: ["stop", "pause"] },
} as const;

/**
 * Rollout options of a deployment: individual flags, or a policy file. A config has no flags for a window or a verification, which only a
 * release has.
 */
export function rolloutOptions(command: Command, kind: keyof typeof KINDS = "release"): Command {
  const { what, promote, begun, on_failure } = KINDS[kind];
  command
    .option(
      "--wave <size>",
      "Robots of a wave: the first 5% or 20 of all robots (including earlier waves), or labels:zone=a; repeatable, in order; the remaining robots form the last wave",
      collect,
    )
    .option("--soak <time>", "Soak time of a wave before the next one starts, such as 10m", seconds)
    .option("--gate", `Wait for \`${promote}\` after each wave`)
    .addOption(
      new Option(
        "--gate-incidents <severity>",
        "Pause if an updated robot of a wave joins an incident of at least this severity before the next wave starts",
      ).choices(SEVERITIES),
    )
    .option(
      "--gate-metric <check>",
      "Pause if a metric of the wave's robots leaves its bound during the soak time, such as 'memory_used_bytes mean rise 10%' or 'cpu_percent max above 90 tolerate 5%'; repeatable",
      (text: string, before: MetricGate[] | undefined) => [...(before ?? []), metricGate(text)],
    )
    .option("--max-parallel <n>", "Maximum robots updating at once", wholeNumber(1))
    .option(
      "--max-unavailable <n>",
      "Maximum robots unavailable at once: 3 or 10% of all robots, 10%/site for each site, or 10%/label:zone for each value of the label",
      unavailable,
    )
    .option("--fail-threshold <n>", "Robots that may fail: 3, or 10% of the completed robots", amount)
    .option("--min-decided <n>", "Minimum completed robots before the threshold applies", wholeNumber(1))
    .addOption(new Option("--on-failure <what>", "Action when the threshold is exceeded").choices(on_failure));
  if (kind === "release")
    command
      .option("--window <cron>", "Maintenance window for installation, such as '0 2 * * 1-5'; downloads run at any time")
      .option("--window-zone <zone>", "Time zone of the window, such as Europe/Berlin (default: UTC)")
      .option("--window-minutes <n>", "Length of the window in minutes (default: 60)", wholeNumber(1));
  command
    .option("--expires-in <time>", `Cancel the deployment for robots that have not ${begun} it within this time, such as 3d`, seconds)
    .option("--max-attempts <n>", `Maximum attempts to deliver the ${what} to a robot`, wholeNumber(1));
  if (kind === "release") command.option("--verify <time>", "How long a robot verifies the new version, such as 30s", seconds);
  return command.option("--policy <file>", "The whole policy as YAML or JSON, instead of the flags above");
}

function metricGate(text: string): MetricGate {
  const gate = parseMetricGate(text);
  if (gate !== undefined) return gate;
  throw new InvalidArgumentError(
    "Expected NAME mean|max above|below VALUE, or NAME mean|max rise|fall PERCENT%; NAME may have {label=value}.",
  );
}

function amount(text: string): { percent: number } | { count: number } {
  const match = /^(\d+(?:\.\d+)?)(%?)$/.exec(text);
  if (match === null || (match[2] === "" && !Number.isInteger(Number(match[1]))))
    throw new InvalidArgumentError("Expected a number or percentage of robots: 3 or 10%.");
  return match[2] === "%" ? { percent: Number(match[1]) } : { count: Number(match[1]) };
}

function unavailable(text: string): NonNullable<Rollout["max_unavailable"]> {
  const at = text.indexOf("/");
  return at === -1 ? amount(text) : { ...amount(text.slice(0, at)), group_by: text.slice(at + 1) };
}

type Wave = NonNullable<Rollout["waves"]>[number];

function waveOf(text: string): Wave {
  if (!text.startsWith("labels:")) {
    try {
      return amount(text);
    } catch {
      throw usage(`--wave ${text} is not a valid wave`, "Use 5%, 20 or labels:zone=a.");
    }
  }
  const pairs = text
    .slice("labels:".length)
    .split(",")
    .map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw usage(`--wave ${text} is not a valid wave`, "Separate key=value labels with commas: labels:zone=a,type=lift");
      return [pair.slice(0, at), pair.slice(at + 1)] as const;
    });
  return { labels: Object.fromEntries(pairs) };
}

/** Returns the policy from the flags or the file; undefined if neither is given. --expires-in is relative to `now`. */
export async function readRollout(flags: RolloutFlags, now: Date): Promise<Rollout | undefined> {
  if (flags.policy !== undefined) return readPolicy(flags);
  const { wave, soak, gate, gateIncidents, gateMetric, failThreshold, minDecided, window, windowZone, windowMinutes } = flags;
  if (wave === undefined && (soak !== undefined || gate || gateIncidents !== undefined || gateMetric !== undefined))
    throw usage("--soak and the flags of gates need waves: add --wave 5%");
  if (gateMetric !== undefined && soak === undefined) throw usage("--gate-metric needs a soak time: add --soak 30m");
  if (failThreshold === undefined && minDecided !== undefined) throw usage("--min-decided needs a threshold: add --fail-threshold 10%");
  if (window === undefined && (windowZone !== undefined || windowMinutes !== undefined))
    throw usage("--window-zone and --window-minutes need a window: add --window '0 2 * * *'");
  const rollout = {
    waves: wave?.map((text) => ({
      ...waveOf(text),
      soak_seconds: soak,
      gate: gate && "manual",
      gate_incidents: gateIncidents,
      gate_metrics: gateMetric,
    })),
    failure_threshold: failThreshold && { ...failThreshold, min_decided: minDecided },
    window: window === undefined ? undefined : { cron: window, time_zone: windowZone ?? "UTC", duration_minutes: windowMinutes ?? 60 },
    max_parallel: flags.maxParallel,
    max_unavailable: flags.maxUnavailable,
    on_failure: flags.onFailure,
    expires_at: flags.expiresIn === undefined ? undefined : new Date(now.getTime() + flags.expiresIn * 1_000).toISOString(),
    max_attempts: flags.maxAttempts,
    verify_seconds: flags.verify,
  };
  // Drop undefined fields, as the serialization of the request does.
  const sent = JSON.parse(JSON.stringify(rollout)) as Rollout;
  return Object.keys(sent).length === 0 ? undefined : sent;
}

/** Reads the policy file. The service validates its fields and rejects unknown ones. */
async function readPolicy(flags: RolloutFlags): Promise<Rollout> {
  const file = flags.policy as string;
  const others = rolloutOptions(new Command()).options.map((option) => option.attributeName() as keyof RolloutFlags);
  if (others.some((name) => name !== "policy" && flags[name] !== undefined))
    throw usage("--policy replaces the other rollout flags: remove them");
  let policy: unknown;
  try {
    policy = parse(await readFile(file, "utf8"));
  } catch (error) {
    throw usage(`${file} cannot be read as a policy: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof policy !== "object" || policy === null || Array.isArray(policy))
    throw usage(
      `${file} does not contain a policy`,
      "Expected an object such as: {waves: [{percent: 5, soak_seconds: 600}], max_parallel: 20}",
    );
  return policy;
}

/** Throws a usage Failure unless exactly one of --robot and --fleet is given. */
export function requireOneTarget({ robot, fleet }: { robot?: string | undefined; fleet?: string | undefined }): void {
  if ((robot === undefined) !== (fleet === undefined)) return;
  throw usage(
    robot === undefined ? "a target is required: --robot <id> or --fleet <id>" : "--robot and --fleet cannot be used together",
    "`rf robots list` and `rf fleets list` show the ids.",
  );
}
