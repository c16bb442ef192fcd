import type { Rollout } from "@roamfleet/protocol/routes";
import { shellLine, shellWord } from "../../ui/shell-text.ts";
import { writeSeconds } from "./lengths.ts";

export interface DeployRequest {
  /** Tag or ID of the release. */
  release: string;
  target: { kind: "robot" | "fleet"; id: string };
  rollout: Rollout;
  scheduled_at?: string | undefined;
  /** Seconds from now until it expires. The rollout contains this as an absolute time. */
  expires_seconds?: number | undefined;
}

type Wave = NonNullable<Rollout["waves"]>[number];

/**
 * Returns the equivalent `rf deploy` command. Uses flags where possible. Otherwise (waves with different soak times or gates, the expiry
 * of a scheduled deployment) it passes a policy on standard input.
 */
export function deployCommand({ release, target, rollout, scheduled_at, expires_seconds }: DeployRequest): string {
  const line = shellLine(
    "rf",
    "deploy",
    release,
    `--${target.kind}`,
    target.id,
    scheduled_at !== undefined && "--scheduled-at",
    scheduled_at,
  );
  if (Object.keys(rollout).length === 0) return line;
  const { expires_at, ...rest } = rollout;
  if (canBeFlags(rest) && (expires_at === undefined || (scheduled_at === undefined && expires_seconds !== undefined))) {
    const expiry = expires_seconds === undefined || expires_at === undefined ? [] : ["--expires-in", writeSeconds(expires_seconds)];
    return [line, ...[...flagsOf(rest), ...expiry].map(shellWord)].join(" ");
  }
  return `${line} --policy /dev/stdin <<'END'\n${JSON.stringify(rollout, null, 2)}\nEND`;
}

const after = ({ soak_seconds = 0, gate = "auto" }: Wave): string => `${soak_seconds} ${gate}`;

/** Whether flags can express the rollout: `--soak` and `--gate` apply to all waves, and label values cannot contain commas. */
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

function flagsOf(rollout: Rollout): string[] {
  const { waves = [], max_unavailable, failure_threshold: threshold, window } = rollout;
  const soak = waves[0]?.soak_seconds ?? 0;
  return [
    ...waves.flatMap((wave) => ["--wave", waveFlag(wave)]),
    ...(soak > 0 ? ["--soak", writeSeconds(soak)] : []),
    ...(waves[0]?.gate === "manual" ? ["--gate"] : []),
    ...(threshold === undefined ? [] : ["--fail-threshold", amount(threshold)]),
    ...(threshold?.min_decided === undefined ? [] : ["--min-decided", String(threshold.min_decided)]),
    ...(rollout.on_failure === undefined ? [] : ["--on-failure", rollout.on_failure]),
    ...(rollout.max_parallel === undefined ? [] : ["--max-parallel", String(rollout.max_parallel)]),
    ...(max_unavailable === undefined
      ? []
      : ["--max-unavailable", `${amount(max_unavailable)}${max_unavailable.group_by === undefined ? "" : `/${max_unavailable.group_by}`}`]),
    ...(window === undefined
      ? []
      : ["--window", window.cron, "--window-zone", window.time_zone, "--window-minutes", String(window.duration_minutes)]),
    ...(rollout.max_attempts === undefined ? [] : ["--max-attempts", String(rollout.max_attempts)]),
    ...(rollout.verify_seconds === undefined ? [] : ["--verify", writeSeconds(rollout.verify_seconds)]),
  ];
}
