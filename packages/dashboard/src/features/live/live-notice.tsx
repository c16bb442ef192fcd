import { CircleDot, CirclePause, CloudOff, RotateCw, TriangleAlert, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { Badge, Button, EmptyState } from "../../ui/index.ts";
import type { Explained } from "./ending.ts";
import type { LiveState } from "./live-socket.ts";

const ICON = { size: 12, "aria-hidden": true } as const;

/** The state of a stream as a badge. */
export function LiveBadge({ live, paused = false }: { live: LiveState | undefined; paused?: boolean }) {
  if (paused) return <Badge icon={<CirclePause {...ICON} />}>paused</Badge>;
  switch (live?.is) {
    case undefined:
      return <Badge icon={<CirclePause {...ICON} />}>not live</Badge>;
    case "connecting":
      return <Badge icon={<RotateCw {...ICON} />}>connecting</Badge>;
    case "open":
      return (
        <Badge tone="ok" icon={<CircleDot {...ICON} />}>
          live
        </Badge>
      );
    case "cut":
      return (
        <Badge tone="warn" icon={<RotateCw {...ICON} />}>
          reconnecting
        </Badge>
      );
    case "offline":
      return <Badge icon={<Unplug {...ICON} />}>robot offline</Badge>;
    case "ended":
      return (
        <Badge tone="bad" icon={<CloudOff {...ICON} />}>
          ended
        </Badge>
      );
  }
}

/** Explains why a stream is interrupted and what to do. Renders nothing while it is open. */
export function LiveNotice({ live, onAgain, children }: { live: LiveState | undefined; onAgain: () => void; children?: ReactNode }) {
  if (live === undefined || live.is === "open" || live.is === "connecting") return null;
  const { title, text, again } = live.why;
  return (
    <div role="status" className="mb-2 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-md border border-line bg-sunken px-3 py-2">
      <TriangleAlert size={16} aria-hidden className="shrink-0 text-warn" />
      <span className="font-medium">{title}</span>
      <span className="min-w-0 flex-1 text-muted [overflow-wrap:anywhere] max-sm:basis-full">
        {text} {live.is === "cut" && "Reconnecting automatically."} {children}
      </span>
      {again !== "never" && live.is !== "offline" && <Button onClick={onAgain}>Retry now</Button>}
    </div>
  );
}

/** Shown instead of a stream without data: the reason and what to do. `command`: the equivalent `rf` command. */
export function NothingLive({ why: { title, text, again }, command, onAgain }: { why: Explained; command: string; onAgain: () => void }) {
  return (
    <EmptyState
      title={title}
      {...(again === "offline" ? { command } : {})}
      actions={again === "later" ? <Button onClick={onAgain}>Try again</Button> : undefined}
    >
      {text}
    </EmptyState>
  );
}
