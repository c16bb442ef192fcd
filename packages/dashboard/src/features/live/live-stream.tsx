import { CLOSE, fillPath, type FleetStreamName, fleetStreamPaths, type StreamName, streamPaths } from "@roamfleet/protocol/paths";
import type { SocketEnding, SocketStream } from "@roamfleet/sdk/browser";
import { CircleDot, CirclePause, CloudOff, Lock, type LucideIcon, RotateCw, TriangleAlert, Unplug } from "lucide-react";
import { type ReactNode, useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { api } from "../../api/client.ts";
import { Badge, Button, EmptyState, type Tone, useOutage } from "../../ui/index.ts";
import { type Explained, explainEnding, explainRefusal } from "./ending.ts";

interface LiveSocketOptions {
  name: StreamName | FleetStreamName;
  /** ID of the robot or fleet. */
  id: string;
  query?: Record<string, string | number | undefined>;
  protocols?: readonly string[];
  /** Names the stream in explanations, such as `the shell`. */
  what: string;
  onFrame: (data: string | ArrayBuffer) => void;
  onOpen?: () => void;
  /** Called once, at the end, with the explanation; undefined for a normal end. */
  onEnd: (why: Explained | undefined, ending: SocketEnding) => void;
}

/** Opens a live stream and explains its end, including refusals, whose reason browsers do not expose. */
export function openLiveSocket({ name, id, query, protocols, what, onFrame, onOpen, onEnd }: LiveSocketOptions): SocketStream {
  let was_closed = false;
  const socket = api.socket(name, {
    id,
    query,
    protocols,
    on_frame: onFrame,
    on_open: onOpen,
    on_end: (ending) => {
      // The server did not refuse a socket that was open, ended normally, or was closed by this page.
      if (ending.was_open || ending.code === 1000 || was_closed) return onEnd(explainEnding(ending, what), ending);
      void whyRefused(name, id, query).then((why) => onEnd(why ?? explainEnding(ending, what), ending));
    },
  });
  return {
    get waiting_bytes() {
      return socket.waiting_bytes;
    },
    send: (data) => socket.send(data),
    close: () => {
      was_closed = true;
      socket.close();
    },
  };
}

/** Requests the stream's path by plain HTTP: the response contains the reason of a refusal. */
async function whyRefused(name: LiveSocketOptions["name"], id: string, query: LiveSocketOptions["query"]): Promise<Explained | undefined> {
  try {
    const response = await api.request("GET", fillPath({ ...streamPaths, ...fleetStreamPaths }[name], { id }), { query });
    const body = (await response.json()) as { error?: { message?: unknown } };
    const { message } = body.error ?? {};
    return explainRefusal(response.status, typeof message === "string" ? message : "");
  } catch {
    return undefined;
  }
}

/** The state of a stream that reconnects automatically. */
export type LiveState =
  | { is: "connecting" }
  | { is: "open" }
  /** cut: reconnects automatically; offline: reconnects when the robot is back; ended: reconnects on request only. */
  | { is: "cut" | "offline" | "ended"; why: Explained };

/** Delays before reconnect attempts; the last one repeats. */
const AGAIN_AFTER_MS = [500, 1_000, 2_000, 5_000, 10_000];

interface FollowOptions extends Omit<LiveSocketOptions, "query" | "onOpen" | "onEnd"> {
  /** Returns the query of the stream. Called before each connection attempt. */
  query: () => LiveSocketOptions["query"];
  /**
   * Called when the server refuses the parameters that `query` returned. Returns true if `query` now returns other parameters; the
   * stream then reconnects immediately.
   */
  onBadQuery?: () => boolean;
  onState: (state: LiveState) => void;
}

export interface Following {
  /** Connects immediately if the stream is not open. */
  again: () => void;
  close: () => void;
}

/** Keeps a stream open and reconnects. Only for streams that are safe to reopen, not for shells. */
export function followStream(options: FollowOptions): Following {
  let socket: SocketStream | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let tries = 0;
  let is_over = false;
  const open = (): void => {
    clearTimeout(timer);
    timer = undefined;
    options.onState({ is: "connecting" });
    const opened = openLiveSocket({
      ...options,
      query: options.query() ?? {},
      onOpen: () => !is_over && options.onState({ is: "open" }),
      onFrame: (data) => {
        tries = 0;
        if (!is_over) options.onFrame(data);
      },
      onEnd: (why, ending) => {
        if (is_over || socket !== opened) return;
        socket = undefined;
        ended(why, ending);
      },
    });
    socket = opened;
  };
  const ended = (why: Explained | undefined, { code }: SocketEnding): void => {
    const told: Explained = why ?? { title: "Stream ended", text: "The server ended the stream.", again: "later" };
    if (told.is_bad_query === true && options.onBadQuery?.() === true) return open();
    if (told.again === "offline") return options.onState({ is: "offline", why: told });
    if (told.again === "never" || (code !== 1006 && code !== CLOSE.draining)) return options.onState({ is: "ended", why: told });
    options.onState({ is: "cut", why: told });
    timer = setTimeout(open, AGAIN_AFTER_MS[Math.min(tries, AGAIN_AFTER_MS.length - 1)]);
    tries += 1;
  };
  open();
  return {
    again: () => {
      if (!is_over && socket === undefined) open();
    },
    close: () => {
      is_over = true;
      clearTimeout(timer);
      socket?.close();
    },
  };
}

interface StreamProps extends Pick<FollowOptions, "name" | "id" | "what"> {
  query?: Record<string, string | number | undefined>;
  /** Whether the robot is online. A stream that ended because the robot was offline resumes when this becomes true. */
  is_online: boolean;
  /** Whether the stream should be open (default true). False closes it. */
  is_wanted?: boolean;
  /**
   * Called when the stream opens, and again when its query changes. Returns a handler for frames, and a cleanup function for the stream's
   * end.
   */
  start: () => { onFrame: FollowOptions["onFrame"]; stop?: () => void };
}

/** Opens a stream while the component is mounted, and reconnects it. `again` in the result connects immediately. */
export function useStream({ name, id, what, query = {}, is_online, is_wanted = true, start }: StreamProps) {
  const [live, setLive] = useState<LiveState>();
  const following = useRef<Following>(undefined);
  const latest = useRef(start);
  latest.current = start;
  const key = JSON.stringify(query);
  useEffect(() => {
    if (!is_wanted) return undefined;
    const { onFrame, stop } = latest.current();
    const stream = followStream({ name, id, what, query: () => JSON.parse(key) as typeof query, onState: setLive, onFrame });
    following.current = stream;
    return () => {
      stream.close();
      stop?.();
    };
  }, [name, id, what, key, is_wanted]);
  useEffect(() => {
    if (is_online && live?.is === "offline") following.current?.again();
  }, [is_online, live]);
  return { live, again: useCallback(() => following.current?.again(), []) };
}

const BADGES: Record<LiveState["is"] | "none" | "paused", { text: string; icon: LucideIcon; tone?: Tone }> = {
  none: { text: "not live", icon: CirclePause },
  paused: { text: "paused", icon: CirclePause },
  connecting: { text: "connecting", icon: RotateCw },
  open: { text: "live", icon: CircleDot, tone: "ok" },
  cut: { text: "reconnecting", icon: RotateCw, tone: "warn" },
  offline: { text: "robot not connected", icon: Unplug },
  ended: { text: "ended", icon: CloudOff, tone: "bad" },
};

/** The state of a stream as a badge. */
export function LiveBadge({ live, paused = false }: { live: LiveState | undefined; paused?: boolean }) {
  const { text, ...look } = BADGES[paused ? "paused" : (live?.is ?? "none")];
  return <Badge {...look}>{text}</Badge>;
}

/** Explains why a stream is interrupted and what to do. Renders nothing while it is open. */
export function LiveNotice({ live, onAgain, children }: { live: LiveState | undefined; onAgain: () => void; children?: ReactNode }) {
  const is_outage = useOutage() !== undefined;
  if (live === undefined || live.is === "open" || live.is === "connecting") return null;
  // During an outage, the frame of all pages shows the reason, and the stream reconnects automatically.
  if (is_outage && live.is === "cut") return null;
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

/** Shown in place of a stream that has no data: the reason, and what to do. */
export function NothingLive({ why: { title, text, again }, onAgain }: { why: Explained; onAgain: () => void }) {
  return (
    <EmptyState title={title} actions={again === "later" ? <Button onClick={onAgain}>Try again</Button> : undefined}>
      {text}
    </EmptyState>
  );
}

/** Whether the page is visible; false in a background tab. */
export const useIsVisible = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      document.addEventListener("visibilitychange", listener);
      return () => document.removeEventListener("visibilitychange", listener);
    },
    () => document.visibilityState === "visible",
  );

/** Shown to viewers instead of features that require the operator role. */
export const OperatorsOnly = ({ what }: { what: string }) => (
  <EmptyState icon={Lock} title="Operator role required">
    You are a viewer. To {what}, you need the operator role. An admin of the organization can change your role under Users and tokens.
  </EmptyState>
);
