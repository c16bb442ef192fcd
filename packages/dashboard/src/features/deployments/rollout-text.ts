import type { Rollout, WholeRollout } from "@roamfleet/protocol/routes";
import { durationText } from "../../ui/format.ts";

/** "1 robot", "1,200 robots". */
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

/** Who is in a wave: "up to 5 %", "up to 20 robots", "zone=a", "everybody else". */
export function waveText({ percent, count, labels }: WaveSize): string {
  if (percent !== undefined && percent !== null) return `up to ${percent} %`;
  if (count !== undefined && count !== null) return `up to ${robots(count)}`;
  if (labels !== undefined && labels !== null) return `robots with ${labelsText(labels)}`;
  return "everybody else";
}

/** What comes after a wave: "soaks 10 min, then a gate". */
export function afterWaveText({ soak_seconds = 0, gate = "auto" }: { soak_seconds?: number; gate?: "auto" | "manual" }): string {
  return [
    ...(soak_seconds > 0 ? [`soaks ${durationText(soak_seconds)}`] : []),
    ...(gate === "manual" ? ["then waits for somebody"] : []),
  ].join(", ");
}

/** Who is in a wave and what comes after it. */
export const wholeWaveText = (wave: WaveSize & Parameters<typeof afterWaveText>[0]): string =>
  [waveText(wave), afterWaveText(wave)].filter((text) => text !== "").join(", ");

/** Waves with what is reached after each: [10, 90, 900] of 1,000 → 1 %, 10 %, 100 %. */
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
  if (group_by === undefined) return "at a time";
  return group_by === "site" ? "of each site at a time" : `at a time of those with the same ${group_by.replace(/^label:/, "")}`;
}

const ON_FAILURE: Record<WholeRollout["on_failure"], string> = {
  stop: "whoever has not got it never does",
  pause: "it is paused, and you decide",
  rollback: "every robot goes back to what it ran",
};

const amountText = ({ percent, count }: { percent?: number; count?: number }): string =>
  percent === undefined ? robots(count ?? 0) : `${percent} %`;

/** A policy in words, one line for each thing that it says. Values that a policy shows as null or leaves out are not said. */
export function policyLines(rollout: WholeRollout | Rollout): (readonly [string, string])[] {
  const { waves, failure_threshold: threshold, max_unavailable, window, max_parallel, verify_seconds, max_attempts } = rollout;
  const lines: (readonly [string, string])[] = [];
  const has_waves = waves !== null && waves !== undefined && waves.length > 0;
  lines.push(["Waves", has_waves ? `${waves.length}, then everybody else` : "everybody at once"]);
  if (threshold !== null && threshold !== undefined) {
    const after = (threshold.min_decided ?? 1) > 1 ? `, looked at once ${robots(threshold.min_decided ?? 1)} have ended` : "";
    lines.push(["Failures allowed", `${amountText(threshold)}${threshold.percent === undefined ? "" : " of those that got it"}${after}`]);
  } else if (has_waves) lines.push(["Failures allowed", "none: the first one is one too many"]);
  if (has_waves || (threshold !== null && threshold !== undefined))
    lines.push(["When more fail", ON_FAILURE[rollout.on_failure ?? "stop"]]);
  if (max_parallel !== null && max_parallel !== undefined) lines.push(["At the same time", `at most ${robots(max_parallel)}`]);
  if (max_unavailable !== null && max_unavailable !== undefined)
    lines.push(["Away", `at most ${amountText(max_unavailable)} ${groupText(max_unavailable.group_by)}`]);
  if (window !== null && window !== undefined)
    lines.push(["Window", `${window.cron} (${window.time_zone}), open for ${durationText(60 * window.duration_minutes)}`]);
  if (max_attempts !== undefined) lines.push(["Attempts", String(max_attempts)]);
  if (verify_seconds !== undefined) lines.push(["Watched for", durationText(verify_seconds)]);
  return lines;
}
