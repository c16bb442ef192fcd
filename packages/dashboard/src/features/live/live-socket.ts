import { CLOSE, fillPath, type FleetStreamName, fleetStreamPaths, type StreamName, streamPaths } from "@roamfleet/protocol/paths";
import type { SocketEnding, SocketStream } from "@roamfleet/sdk/browser";
import { api } from "../../api/client.ts";
import { type Explained, explainEnding, explainRefusal } from "./ending.ts";

export interface LiveSocketOptions {
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
      // Closed by this page before it was open: not a refusal.
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

export interface FollowOptions extends Omit<LiveSocketOptions, "query" | "onOpen" | "onEnd"> {
  /** Called for each connection. */
  query: () => LiveSocketOptions["query"];
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
    const told = why ?? { title: "Ended", text: "The server ended it.", again: "later" as const };
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
