import type { IncomingMessage } from "node:http";
import { type Activity, type Clock, idleActivity } from "@robofleet/clock";
import { FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, LINK_SUBPROTOCOL } from "@robofleet/protocol/link";
import { WebSocket } from "ws";
import { errorText } from "../disk/write-atomically.ts";
import { errorMessage } from "../http/request.ts";
import { retryAfterMs } from "./backoff.ts";

/** Name lookup, TCP, TLS and upgrade together. */
const CONNECT_TIMEOUT_MS = 20_000;
const REFUSAL_BYTES_MAX = 16 * 1024;

/** Why no link came about, and how long to wait if the server said so. */
export class ConnectFailed extends Error {
  readonly retry_after_ms: number | undefined;
  /** Only a human can change it: do not hurry. */
  readonly slow: boolean;

  constructor(reason: string, wait: { retry_after_ms?: number | undefined; slow?: boolean } = {}) {
    super(reason);
    this.retry_after_ms = wait.retry_after_ms;
    this.slow = wait.slow ?? false;
  }
}

export interface ConnectOptions {
  /** http or https address of the server. */
  server: string;
  clock: Clock;
  activity?: Activity;
  signal: AbortSignal;
  /** Called before the first message can arrive: listeners are added here. */
  on_open: (socket: WebSocket) => void;
}

/** Opens the robot's WebSocket. Rejects with ConnectFailed. */
export function connect({ server, clock, activity = idleActivity, signal, on_open }: ConnectOptions): Promise<void> {
  const ended = activity.begin();
  return new Promise<void>((resolve, reject) => {
    const socket = new WebSocket(`${server.replace(/^http/, "ws")}/agent/ws`, LINK_SUBPROTOCOL, {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
    });
    let settled = false;
    const settle = (failure?: ConnectFailed): void => {
      if (settled) return;
      settled = true;
      timer.cancel();
      signal.removeEventListener("abort", give_up);
      if (failure === undefined) return resolve();
      socket.terminate();
      reject(failure);
    };
    const give_up = (): void => settle(new ConnectFailed("the agent is stopping"));
    const timer = clock.setTimer(CONNECT_TIMEOUT_MS, () => settle(new ConnectFailed(`no connection after ${CONNECT_TIMEOUT_MS / 1000} s`)));
    signal.addEventListener("abort", give_up, { once: true });
    if (signal.aborted) give_up();
    // Stays on for the socket's whole life: an error is followed by close, which ends the session.
    socket.on("error", (error) => settle(new ConnectFailed(errorText(error))));
    socket.on("unexpected-response", (_request, response) => void refusal(response, clock).then(settle));
    socket.on("open", () => {
      if (settled) return socket.terminate();
      on_open(socket);
      settle();
    });
  }).finally(ended);
}

/** What an HTTP answer in place of the upgrade means. */
async function refusal(response: IncomingMessage, clock: Clock): Promise<ConnectFailed> {
  const status = response.statusCode ?? 0;
  const retry_after_ms = retryAfterMs(response.headers["retry-after"], response.headers.date, clock);
  const message = errorMessage(await firstBytes(response)) ?? `HTTP status ${status}`;
  return new ConnectFailed(`the server refused the link: ${message}`, {
    retry_after_ms,
    slow: status === 401 || status === 403 || status === 404,
  });
}

/** The connect timeout bounds this too: it destroys the socket. */
async function firstBytes(response: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of response) {
      text += String(chunk);
      if (text.length > REFUSAL_BYTES_MAX) break;
    }
  } catch {
    // Cut off: the status says enough.
  }
  return text;
}
