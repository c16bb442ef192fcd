import {
  CircleCheck,
  CircleDashed,
  CircleDot,
  CirclePause,
  CircleSlash,
  CircleX,
  Clock,
  type LucideIcon,
  RotateCcw,
  TriangleAlert,
} from "lucide-react";
import type { ReactNode } from "react";
import { useOutage } from "./outage.ts";
import { cx, Time } from "./text.tsx";

export type Tone = "ok" | "warn" | "bad" | "info" | "idle";
const TONES: Record<Tone, string> = {
  ok: "bg-ok-soft text-ok",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  info: "bg-info-soft text-info",
  idle: "bg-idle-soft text-idle",
};

export function Badge({ tone = "idle", icon: Icon, children }: { tone?: Tone; icon?: LucideIcon | undefined; children: ReactNode }) {
  return (
    <span
      className={cx(
        "inline-flex h-5 max-w-full items-center gap-1 rounded px-1.5 align-middle text-xs font-medium whitespace-nowrap",
        TONES[tone],
      )}
    >
      {Icon !== undefined && <Icon size={12} aria-hidden />}
      <span className="truncate">{children}</span>
    </span>
  );
}

/** Every status that the dashboard shows: its color, its icon (never the color alone) and its text if that differs from the name. */
const STATUSES: Record<string, { tone: Tone; icon: typeof CircleDot; text?: string }> = {
  online: { tone: "ok", icon: CircleCheck },
  offline: { tone: "idle", icon: CircleSlash },
  never_connected: { tone: "idle", icon: CircleDashed, text: "never connected" },
  decommissioned: { tone: "idle", icon: CircleX },
  ok: { tone: "ok", icon: CircleCheck, text: "healthy" },
  failing: { tone: "bad", icon: TriangleAlert, text: "unhealthy" },
  unknown: { tone: "idle", icon: CircleDashed },
  current: { tone: "ok", icon: CircleCheck },
  behind: { tone: "info", icon: Clock },
  in_sync: { tone: "ok", icon: CircleCheck, text: "in sync" },
  drifted: { tone: "warn", icon: TriangleAlert },
  not_deployed: { tone: "idle", icon: CircleDashed, text: "not deployed" },
  scheduled: { tone: "info", icon: Clock },
  pending: { tone: "idle", icon: CircleDashed },
  queued: { tone: "idle", icon: Clock },
  in_progress: { tone: "info", icon: CircleDot, text: "in progress" },
  paused: { tone: "warn", icon: CirclePause },
  dispatched: { tone: "info", icon: CircleDot },
  downloading: { tone: "info", icon: CircleDot },
  staged: { tone: "info", icon: CircleDot },
  installing: { tone: "info", icon: CircleDot },
  verifying: { tone: "info", icon: CircleDot },
  applied: { tone: "ok", icon: CircleCheck },
  rolling_back: { tone: "warn", icon: RotateCcw, text: "rolling back" },
  rolled_back: { tone: "warn", icon: RotateCcw, text: "rolled back" },
  failed: { tone: "bad", icon: CircleX },
  last_update_failed: { tone: "bad", icon: CircleX, text: "last update failed" },
  cancelling: { tone: "idle", icon: CircleSlash },
  cancelled: { tone: "idle", icon: CircleSlash },
  active: { tone: "ok", icon: CircleCheck },
  expired: { tone: "idle", icon: Clock },
  exhausted: { tone: "idle", icon: CircleSlash },
  revoked: { tone: "bad", icon: CircleX },
  suspended: { tone: "warn", icon: CirclePause },
  stored: { tone: "ok", icon: CircleCheck },
  awaiting_upload: { tone: "warn", icon: Clock, text: "awaiting upload" },
  external: { tone: "info", icon: CircleDot, text: "in a registry" },
  open: { tone: "info", icon: CircleDot },
  soaking: { tone: "info", icon: Clock },
  gate: { tone: "warn", icon: CirclePause, text: "awaiting promotion" },
  passed: { tone: "ok", icon: CircleCheck },
  ended: { tone: "idle", icon: CircleCheck },
  aborted: { tone: "warn", icon: TriangleAlert },
};

/** Shows a status as a badge. An unknown status is shown by its name. */
export function StatusBadge({ status }: { status: string }) {
  const { tone, icon: Icon, text } = STATUSES[status] ?? { tone: "idle" as const, icon: CircleDashed };
  return (
    <Badge tone={tone} icon={Icon}>
      {text ?? status.replaceAll("_", " ")}
    </Badge>
  );
}

/** The status of a deployment; "awaiting promotion" while one of its waves needs a promotion. */
export const DeploymentStatusBadge = ({ deployment }: { deployment: { status: string; awaiting_promotion: boolean } }) => (
  <StatusBadge status={deployment.awaiting_promotion ? "gate" : deployment.status} />
);

/** The config state of a robot. The API's `unknown` means that no config was deployed to it yet. */
export const ConfigState = ({ state }: { state: string }) => <StatusBadge status={state === "unknown" ? "not_deployed" : state} />;

/** The release state of a robot. A robot whose last update failed may run an earlier release without problems. */
export const ReleaseState = ({ state }: { state: string }) => <StatusBadge status={state === "failed" ? "last_update_failed" : state} />;

/** The health of a robot. Health reported before the robot went offline is labeled "was …" and has no status color. */
export function HealthBadge({
  robot: { status, health, failing },
}: {
  robot: { status: string; health: string; failing: readonly string[] };
}) {
  const text = failing.join(", ").slice(0, 500);
  if (status === "online" || health === "unknown")
    return (
      <span title={text} className="inline-flex max-w-full">
        <StatusBadge status={health} />
      </span>
    );
  return (
    <span title={`Last reported before the robot went offline${text === "" ? "" : `: ${text}`}`} className="inline-flex max-w-full">
      <Badge icon={CircleDashed}>was {STATUSES[health]?.text ?? health}</Badge>
    </span>
  );
}

/** The status of a robot in a table. Also shows failing health on narrow screens, where tables have no health column. */
export const RobotStatus = ({ robot: { status, health } }: { robot: { status: string; health: string } }) => (
  <span className="flex items-center gap-1.5">
    <StatusBadge status={status} />
    {status === "online" && health === "failing" && (
      <TriangleAlert size={16} role="img" aria-label="unhealthy" className="shrink-0 text-bad sm:hidden" />
    )}
  </span>
);

/** When a robot was last seen. A robot that is online is seen now or, during an outage, was seen when the server responded last. */
export function LastSeen({ robot: { status, last_seen_at } }: { robot: { status: string; last_seen_at: string | null } }) {
  const outage = useOutage();
  if (status !== "online") return <Time at={last_seen_at} />;
  return outage === undefined ? <span className="text-muted">now</span> : <Time at={new Date(outage.since_ms).toISOString()} />;
}

const FILLS: Record<Tone, string> = { ok: "bg-ok", warn: "bg-warn", bad: "bg-bad", info: "bg-info", idle: "bg-line-strong" };

export interface Part {
  value: number;
  tone: Tone;
  label: string;
}

/** A stacked progress bar. `label` is its accessible name. */
export function Progress({ parts, total, label }: { parts: readonly Part[]; total: number; label: string }) {
  const of = Math.max(1, total);
  const done = parts.reduce((sum, { value }) => sum + value, 0);
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={of}
      aria-valuenow={Math.min(of, done)}
      aria-valuetext={
        parts
          .filter(({ value }) => value > 0)
          .map((part) => `${part.value} ${part.label}`)
          .join(", ") || `0 of ${total}`
      }
      className="flex h-2 w-full gap-px overflow-hidden rounded-full bg-active"
    >
      {/* Flex factors divide the width that the gaps leave, so that parts that add up to the total fill the whole bar. */}
      {parts.map(
        ({ value, tone, label: name }) =>
          value > 0 && (
            <div key={name} className={cx("h-full", FILLS[tone])} style={{ flex: `${value} 0 0px` }} title={`${value} ${name}`} />
          ),
      )}
      {of > done && <div style={{ flex: `${of - done} 0 0px` }} />}
    </div>
  );
}

/** A usage meter: yellow above 80%, red above 95%, or in another tone. */
export function Meter({ value, max = 100, label, ...look }: { value: number; max?: number; label: string; tone?: Tone }) {
  const share = Math.min(1, Math.max(0, value / Math.max(1e-9, max)));
  const tone = look.tone ?? (share > 0.95 ? "bad" : share > 0.8 ? "warn" : "ok");
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={value}
      className="h-1.5 w-full overflow-hidden rounded-full bg-active"
    >
      <div className={cx("h-full", FILLS[tone])} style={{ width: `${100 * share}%` }} />
    </div>
  );
}
