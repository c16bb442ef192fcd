import type { Rollout, WholeRollout } from "@roamfleet/protocol/routes";
import { durationText } from "../../ui/format.ts";

/** Formats a number of robots: "1 robot", "1,200 robots". */
export const robots = (count: number): string => `${count.toLocaleString("en")} robot${count === 1 ? "" : "s"}`;

export const labelsText = (labels: Readonly<Record<string, string>>): string =>
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
  if (percent !== undefined && percent !== null) return `up to ${percent}%`;
  if (count !== undefined && count !== null) return `up to ${robots(count)}`;
  if (labels !== undefined && labels !== null) return `robots with ${labelsText(labels)}`;
  return "remaining robots";
}

/** Describes what happens between a wave and the next one: "soak 10 min, manual promotion"; empty if nothing. */
export function afterWaveText({ soak_seconds = 0, gate = "auto" }: { soak_seconds?: number; gate?: "auto" | "manual" }): string {
  return [...(soak_seconds > 0 ? [`soak ${durationText(soak_seconds)}`] : []), ...(gate === "manual" ? ["manual promotion"] : [])].join(
    ", ",
  );
}

/** Describes a wave completely: "up to 5%, soak 10 min, manual promotion". */
export const wholeWaveText = (wave: WaveSize & Parameters<typeof afterWaveText>[0]): string =>
  [waveText(wave), afterWaveText(wave)].filter((text) => text !== "").join(", ");

/** Returns the cumulative share after each wave: [10, 90, 900] of 1,000 → 1%, 10%, 100%. `from` and `to` count robots from 1. */
export function reachOf(waves: readonly { total: number }[]): { from: number; to: number; percent: number }[] {
  const all = waves.reduce((sum, { total }) => sum + total, 0);
  let before = 0;
  return waves.map(({ total }) => {
    const from = before + (total > 0 ? 1 : 0);
    before += total;
    return { from, to: before, percent: all === 0 ? 0 : Math.round((1_000 * before) / all) / 10 };
  });
}

function groupText(group_by: string | undefined): string {
  if (group_by === undefined) return "";
  return ` per ${group_by.replace(/^label:/, "")}`;
}

const ON_FAILURE: Record<WholeRollout["on_failure"], string> = {
  stop: "stop: remaining robots do not receive the release",
  pause: "pause",
  rollback: "roll back all robots",
};

export const amountText = ({ percent, count }: { percent?: number; count?: number }): string =>
  percent === undefined ? robots(count ?? 0) : `${percent}%`;

/** Describes a policy, one line per setting. Settings that are null or missing have no line. */
export function policyLines(rollout: WholeRollout | Rollout): (readonly [string, string])[] {
  const { waves, failure_threshold: threshold, max_unavailable, window, max_parallel, verify_seconds, max_attempts } = rollout;
  const lines: (readonly [string, string])[] = [];
  const has_waves = waves !== null && waves !== undefined && waves.length > 0;
  lines.push(["Waves", has_waves ? `${waves.length}, then remaining robots` : "none: all robots at once"]);
  if (threshold !== null && threshold !== undefined) {
    const after = (threshold.min_decided ?? 1) > 1 ? `, after ${robots(threshold.min_decided ?? 1)} have finished` : "";
    lines.push(["Failure limit", `${amountText(threshold)}${threshold.percent === undefined ? "" : " of finished robots"}${after}`]);
  } else if (has_waves) lines.push(["Failure limit", "no failures allowed"]);
  if (has_waves || (threshold !== null && threshold !== undefined)) lines.push(["On failure", ON_FAILURE[rollout.on_failure ?? "stop"]]);
  if (max_parallel !== null && max_parallel !== undefined) lines.push(["Concurrency", `at most ${robots(max_parallel)}`]);
  if (max_unavailable !== null && max_unavailable !== undefined)
    lines.push(["Unavailable", `at most ${amountText(max_unavailable)}${groupText(max_unavailable.group_by)}`]);
  if (window !== null && window !== undefined)
    lines.push(["Window", `${window.cron} (${window.time_zone}), open for ${durationText(60 * window.duration_minutes)}`]);
  if (max_attempts !== undefined) lines.push(["Attempts", String(max_attempts)]);
  if (verify_seconds !== undefined) lines.push(["Verification", durationText(verify_seconds)]);
  return lines;
}
