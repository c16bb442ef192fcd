import type { Reason, Severity, TargetStatus, WaitingFor } from "@roamfleet/protocol";
import { formatMetricGate, type MetricGate } from "@roamfleet/protocol/metric-gate";
import type { Deployment, Rollout, WholeRollout } from "@roamfleet/protocol/routes";
import { durationText } from "../../ui/format.ts";

/** Formats a number of robots: "1 robot", "1,200 robots". */
export const robots = (count: number): string => `${count.toLocaleString("en")} robot${count === 1 ? "" : "s"}`;

const labelsText = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");

interface WaveSize {
  percent?: number | null | undefined;
  count?: number | null | undefined;
  labels?: Readonly<Record<string, string>> | null | undefined;
}

/** Describes the robots of a wave: "up to 5%", "up to 20 robots", "robots with zone=a", "remaining robots". */
export function waveText({ percent, count, labels }: WaveSize): string {
  if (percent === 100) return "remaining robots";
  if (percent !== undefined && percent !== null) return `up to ${percent}%`;
  if (count !== undefined && count !== null) return `up to ${robots(count)}`;
  if (labels !== undefined && labels !== null) return `robots with ${labelsText(labels)}`;
  return "remaining robots";
}

interface WaveGate {
  soak_seconds?: number;
  gate?: "auto" | "manual";
  gate_incidents?: Severity | null;
  gate_metrics?: readonly MetricGate[];
}

/** Describes what happens between a wave and the next one: "soak 10 min, manual promotion"; empty if nothing. */
export const afterWaveText = ({ soak_seconds = 0, gate = "auto", gate_incidents = null, gate_metrics = [] }: WaveGate): string =>
  [
    ...(soak_seconds > 0 ? [`soak ${durationText(soak_seconds)}`] : []),
    ...(gate_incidents === null
      ? []
      : [`no new incident of severity ${gate_incidents}${gate_incidents === "critical" ? "" : " or above"}`]),
    ...gate_metrics.map((metric) => `pause on ${formatMetricGate(metric)}`),
    ...(gate === "manual" ? ["manual promotion"] : []),
  ].join(", ");

/** Describes a wave completely: "up to 5%, soak 10 min, manual promotion". */
export const wholeWaveText = (wave: WaveSize & WaveGate): string =>
  [waveText(wave), afterWaveText(wave)].filter((text) => text !== "").join(", ");

/** Describes which robots each wave has, in rollout order: waves of 1 and 11 robots → "robot 1 of 12", "robots 2–12 of 12". */
export function rangesOf(waves: readonly { total: number }[]): string[] {
  const all = waves.reduce((sum, { total }) => sum + total, 0);
  let before = 0;
  return waves.map(({ total }) => {
    const [from, to, of] = [before + 1, before + total, all].map((count) => count.toLocaleString("en"));
    before += total;
    if (total === 0) return "no robots";
    return total === 1 ? `robot ${from} of ${of}` : `robots ${from}–${to} of ${of}`;
  });
}

/** Waves that a summary lists. */
const WAVES_LISTED = 4;

/** Lists the sizes of the waves in order: "1 robot, then 2, then 9"; "1 robot, then 2, then 3, then 4, then 5 more waves". */
export function waveSizesText(waves: readonly { total: number }[]): string {
  const listed = waves.length <= WAVES_LISTED + 1 ? waves : waves.slice(0, WAVES_LISTED);
  const sizes = listed.map(({ total }, at) => (at === 0 ? robots(total) : total.toLocaleString("en")));
  const more = waves.length - listed.length;
  return [...sizes, ...(more > 0 ? [`${more} more waves`] : [])].join(", then ");
}

/** Describes the failure policy: "pause if more than 5% fail", "stop if any robot fails"; undefined if nothing stops it early. */
export function failureText({ waves, failure_threshold: threshold, on_failure }: WholeRollout): string | undefined {
  if (waves === null && threshold === null) return undefined;
  const is_none = threshold === null || (threshold.percent ?? threshold.count) === 0;
  const [action] = ON_FAILURE[on_failure].split(":");
  return `${action ?? ""} if ${is_none ? "any robot fails" : `more than ${amountText(threshold)} fail`}`;
}

function groupText(group_by: string | undefined): string {
  if (group_by === undefined) return "";
  return ` per ${group_by.replace(/^label:/, "")}`;
}

const ON_FAILURE: Record<WholeRollout["on_failure"], string> = {
  stop: "stop: remaining robots are not updated",
  pause: "pause",
  rollback: "roll back all robots",
};

export const amountText = ({ percent, count }: { percent?: number; count?: number }): string =>
  percent === undefined ? robots(count ?? 0) : `${percent}%`;

/** Whether no robots remain after a wave. */
const reachesAll = (last: WaveSize | undefined): boolean => last?.percent === 100;

/** Describes a policy, one line per setting. Settings that are null or missing have no line. */
export function policyLines(rollout: WholeRollout | Rollout): (readonly [string, string])[] {
  const { waves, failure_threshold: threshold, max_unavailable, window, max_parallel, verify_seconds, max_attempts } = rollout;
  const lines: (readonly [string, string])[] = [];
  const has_waves = waves !== null && waves !== undefined && waves.length > 0;
  lines.push([
    "Waves",
    has_waves ? `${waves.length}${reachesAll(waves.at(-1)) ? "" : ", then remaining robots"}` : "none: all robots at once",
  ]);
  if (threshold !== null && threshold !== undefined) {
    const after = (threshold.min_decided ?? 1) > 1 ? `, after ${robots(threshold.min_decided ?? 1)} have finished` : "";
    lines.push(["Failure limit", `${amountText(threshold)}${threshold.percent === undefined ? "" : " of finished robots"}${after}`]);
  } else if (has_waves) lines.push(["Failure limit", "no failures allowed"]);
  if (has_waves || (threshold !== null && threshold !== undefined)) lines.push(["On failure", ON_FAILURE[rollout.on_failure ?? "stop"]]);
  if (max_parallel !== null && max_parallel !== undefined) lines.push(["Concurrency", `at most ${robots(max_parallel)}`]);
  if (max_unavailable !== null && max_unavailable !== undefined)
    lines.push(["Maximum unavailable", `${amountText(max_unavailable)}${groupText(max_unavailable.group_by)}`]);
  if (window !== null && window !== undefined)
    lines.push(["Maintenance window", `${window.cron} (${window.time_zone}), open for ${durationText(60 * window.duration_minutes)}`]);
  if (max_attempts !== undefined) lines.push(["Attempts per robot", String(max_attempts)]);
  if (verify_seconds !== undefined) lines.push(["Verification time", durationText(verify_seconds)]);
  return lines;
}

/** Describes the policy of a config deployment. Robots do not verify configs. */
export const configPolicyLines = (rollout: WholeRollout): (readonly [string, string])[] =>
  policyLines(rollout).filter(([name]) => name !== "Verification time");

interface Explanation {
  /** The explanation of a reason code, without a full stop. */
  text: string;
  /** A suggested next step. */
  advice?: string;
}

/** Texts for all reasons. Exhaustive: a new reason without a text does not compile. */
const REASONS: Record<Reason, Explanation> = {
  already_installed: { text: "already up to date" },
  timeout: {
    text: "the robot was connected but did not finish a step in time",
    advice: "Check the robot's log around that time, then retry.",
  },
  health_check_failed: {
    text: "health check failed",
    advice: "The robot's log around that time contains the output of the check.",
  },
  crash_loop: {
    text: "the program crashed repeatedly",
    advice: "The robot's log contains the last output and the exit code of the program.",
  },
  download_failed: { text: "download of the artifact failed", advice: "Check the network between the robot and the server." },
  digest_mismatch: {
    text: "the artifact had the wrong digest after two downloads",
    advice: "Possible causes: a proxy that changes downloads, or a failing disk.",
  },
  signature_invalid: {
    text: "the release is not signed with a key that the robot trusts",
    advice: "Sign the release with a trusted key, or install the key on the robot.",
  },
  incompatible: {
    text: "the robot does not support this kind of release",
    advice: "Deploy a kind of release that the robot's agent supports, or update the agent.",
  },
  insufficient_disk: {
    text: "not enough disk space on the robot",
    advice: "Free the disk space that the robot's message states, then retry.",
  },
  rejected_by_robot: {
    text: "the robot refused the release or its manifest",
    advice: "The agent's log names the invalid field or archive entry.",
  },
  rollback_requested: { text: "a rollback was requested by a user or by the policy" },
  rollback_failed: {
    text: "the previous version did not start again",
    advice: "Check the robot. The agent keeps restarting the previous version.",
  },
  superseded: { text: "replaced by a newer deployment" },
  expired: { text: "the deployment expired before the update started", advice: "Deploy again." },
  no_targets: {
    text: "the fleet had no robots when the deployment started",
    advice: "Enroll robots or move some to the fleet, then deploy again.",
  },
  robot_removed: { text: "the robot was decommissioned" },
  scope_lost: {
    text: "the deployment's creator may no longer deploy to this robot",
    advice: "Deploy again as a user who may deploy to the robot's fleet.",
  },
  creator_removed: {
    text: "the deployment's creator left the organization, or the creator's token was revoked",
    advice: "Deploy again with another user or token of the organization.",
  },
  user_cancelled: { text: "cancelled by a user" },
  threshold_exceeded: { text: "too many robots failed", advice: "Find out why the robots failed, then retry the deployment." },
  gate_failed: {
    text: "the gate of a wave failed",
    advice: "Check the gate, then resume, roll back or cancel.",
  },
  agent_lost: {
    text: "the robot disconnected during a step and did not reconnect in time",
    advice: "Deploy again when the robot is online.",
  },
};

const WAITS: Record<WaitingFor, string> = {
  robot_online: "robot offline: starts when it connects",
  slot: "concurrency limit reached",
  window: "waiting for the maintenance window",
  artifact: "waiting for the artifact to be uploaded",
  previous_deployment: "waiting for an older deployment to finish installing",
  gate: "awaiting promotion",
  approval: "waiting for an admin to approve the robot: its config contains secrets",
  robot: "postponed by software on the robot",
};

const STEPS: Record<TargetStatus, string> = {
  pending: "in a later wave",
  queued: "queued",
  dispatched: "sent to the robot",
  downloading: "downloading the artifact",
  staged: "downloaded and unpacked",
  installing: "switching to the new version",
  verifying: "verifying",
  rolling_back: "rolling back to the previous version",
  applied: "complete",
  failed: "failed",
  rolled_back: "failed; previous version restored",
  cancelled: "not updated",
};

const isKnown = <K extends string>(map: Record<K, unknown>, key: string): key is K => Object.hasOwn(map, key);

/** Returns the text of a reason. An unknown reason is shown by its name. */
export const reasonText = (reason: string): string => (isKnown(REASONS, reason) ? REASONS[reason].text : reason.replaceAll("_", " "));
export const reasonAdvice = (reason: string): string | undefined => (isKnown(REASONS, reason) ? REASONS[reason].advice : undefined);

/** Reasons of whole deployments. The list of failures, which is by reasons of robots, has no advice for them. */
const OWN_REASONS: ReadonlySet<string> = new Set(["expired", "threshold_exceeded", "gate_failed", "scope_lost", "creator_removed"]);

/** Returns the advice for a deployment that has ended; undefined if the list of failures below has it. */
export const endAdvice = (reason: string | null, has_failures: boolean): string | undefined =>
  reason === null || (has_failures && !OWN_REASONS.has(reason)) ? undefined : reasonAdvice(reason);
export const waitingText = (waiting_for: string): string =>
  isKnown(WAITS, waiting_for) ? WAITS[waiting_for] : `waiting for ${waiting_for.replaceAll("_", " ")}`;
const stepText = (status: string): string => (isKnown(STEPS, status) ? STEPS[status] : status.replaceAll("_", " "));

/** Returns the details of a robot in a deployment: what it waits for, or else the reason of its status, or else its current step. */
export function targetText(target: { status: string; reason: string | null; waiting_for: string | null; removed?: boolean }): string {
  if (target.removed === true) return "app removed from the robot";
  if (target.waiting_for !== null) return waitingText(target.waiting_for);
  if (target.reason !== null) return reasonText(target.reason);
  return stepText(target.status);
}

export interface TargetOutcome {
  robot_id: string;
  status: string;
  reason: string | null;
}

export interface RobotDifference {
  robot_id: string;
  /** Outcome of the robot in the first deployment; undefined if the robot was not part of it. */
  a: TargetOutcome | undefined;
  b: TargetOutcome | undefined;
}

/** Returns robots with different results in two deployments, or in only one of them; robots of the first one come first. */
export function differingRobots(a: readonly TargetOutcome[], b: readonly TargetOutcome[]): RobotDifference[] {
  const in_b = new Map(b.map((target) => [target.robot_id, target]));
  const in_a = new Set(a.map(({ robot_id }) => robot_id));
  return [
    ...a.flatMap((one) => {
      const other = in_b.get(one.robot_id);
      return other?.status === one.status && other.reason === one.reason ? [] : [{ robot_id: one.robot_id, a: one, b: other }];
    }),
    ...b.flatMap((one) => (in_a.has(one.robot_id) ? [] : [{ robot_id: one.robot_id, a: undefined, b: one }])),
  ];
}

/** Returns the seconds from start to end; undefined if the deployment has not started or not ended. */
export function secondsOf({ started_at, finished_at }: Pick<Deployment, "started_at" | "finished_at">): number | undefined {
  return started_at === null || finished_at === null ? undefined : (Date.parse(finished_at) - Date.parse(started_at)) / 1_000;
}

/** Returns the differences of two policies in words; "—" where one has no value. */
export function policyDifferences(a: WholeRollout, b: WholeRollout): { name: string; a: string; b: string }[] {
  const [in_a, in_b] = [new Map(allLines(a)), new Map(allLines(b))];
  return [...new Set([...in_a.keys(), ...in_b.keys()])].flatMap((name) => {
    const [one = "—", other = "—"] = [in_a.get(name), in_b.get(name)];
    return one === other ? [] : [{ name, a: one, b: other }];
  });
}

const allLines = (rollout: WholeRollout): (readonly [string, string])[] => [
  ...policyLines(rollout),
  ...(rollout.waves ?? []).map((wave, at) => [`Wave ${at + 1}`, wholeWaveText(wave)] as const),
];

type Paced = Pick<Deployment, "status" | "started_at" | "finished_at" | "counts" | "wave_count" | "rollout">;

/** Fewer finished robots say little about the pace. */
const PACE_MIN = 3;

/**
 * Returns how long a deployment has run, and an estimate of the time left from its pace so far. No estimate for a deployment that is not
 * running, or that waits between waves: for a promotion, a soak time or a maintenance window.
 */
export function paceOf(deployment: Paced, now_ms: number): { elapsed: number; left: number | undefined } | undefined {
  const { status, started_at, finished_at, counts, wave_count, rollout } = deployment;
  if (started_at === null) return undefined;
  const end = finished_at === null ? now_ms : Date.parse(finished_at);
  const elapsed = Math.max(0, (end - Date.parse(started_at)) / 1_000);
  const done = counts.applied + counts.failed + counts.rolled_back + counts.cancelled;
  const is_steady = status === "in_progress" && wave_count <= 1 && rollout.window === null && counts.active > 0;
  if (!is_steady || done < PACE_MIN) return { elapsed, left: undefined };
  return { elapsed, left: (elapsed * (counts.total - done)) / done };
}
