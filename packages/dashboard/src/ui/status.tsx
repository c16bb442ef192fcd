import { CircleCheck, CircleDashed, CircleDot, CirclePause, CircleSlash, CircleX, Clock, RotateCcw, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./class-names.ts";

export type Tone = "ok" | "warn" | "bad" | "info" | "idle";
const TONES: Record<Tone, string> = {
  ok: "bg-ok-soft text-ok",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  info: "bg-info-soft text-info",
  idle: "bg-idle-soft text-idle",
};

export function Badge({ tone = "idle", icon, children }: { tone?: Tone; icon?: ReactNode; children: ReactNode }) {
  return (
    <span
      className={cx(
        "inline-flex h-5 max-w-full items-center gap-1 rounded px-1.5 align-middle text-xs font-medium whitespace-nowrap",
        TONES[tone],
      )}
    >
      {icon}
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
  ok: { tone: "ok", icon: CircleCheck },
  failing: { tone: "bad", icon: TriangleAlert },
  unknown: { tone: "idle", icon: CircleDashed },
  current: { tone: "ok", icon: CircleCheck },
  behind: { tone: "info", icon: Clock },
  in_sync: { tone: "ok", icon: CircleCheck, text: "in sync" },
  drifted: { tone: "warn", icon: TriangleAlert },
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
    <Badge tone={tone} icon={<Icon size={12} aria-hidden />}>
      {text ?? status.replaceAll("_", " ")}
    </Badge>
  );
}
