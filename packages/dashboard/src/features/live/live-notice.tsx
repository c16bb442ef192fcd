import { CircleDot, CirclePause, CloudOff, RotateCw, TriangleAlert, Unplug } from "lucide-react";
import type { ReactNode } from "react";
import { Badge, Button, EmptyState } from "../../ui/index.ts";
import type { Explained } from "./ending.ts";
import type { LiveState } from "./live-socket.ts";

const ICON = { size: 12, "aria-hidden": true } as const;

/** How a stream stands, in a word. */
export function LiveBadge({ live, paused = false }: { live: LiveState | undefined; paused?: boolean }) {
  if (paused) return <Badge icon={<CirclePause {...ICON} />}>paused</Badge>;
  switch (live?.is) {
    case undefined:
      return <Badge icon={<CirclePause {...ICON} />}>not followed</Badge>;
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
          connecting again
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

/** Why a stream does not go on, and what can be done; nothing while it does. */
export function LiveNotice({ live, onAgain, children }: { live: LiveState | undefined; onAgain: () => void; children?: ReactNode }) {
  if (live === undefined || live.is === "open" || live.is === "connecting") return null;
  const { title, text, again } = live.why;
  return (
    <div role="status" className="mb-2 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-md border border-line bg-sunken px-3 py-2">
      <TriangleAlert size={16} aria-hidden className="shrink-0 text-warn" />
      <span className="font-medium">{title}</span>
      <span className="min-w-0 flex-1 text-muted [overflow-wrap:anywhere] max-sm:basis-full">
        {text} {live.is === "cut" && "It is tried again by itself."} {children}
      </span>
      {again !== "never" && live.is !== "offline" && <Button onClick={onAgain}>Try now</Button>}
    </div>
  );
}

/** In place of what a stream would show, when nothing of it came: why, and what can be done. `command`: the same by `rf`. */
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
