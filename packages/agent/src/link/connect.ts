import type { Agent, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { type Activity, type Clock, idleActivity, type Timer } from "@roamfleet/clock";
import {
  channelBinding,
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  LINK_SLOT_HEADER,
  LINK_SUBPROTOCOL,
  RETRY_AFTER_MS_HEADER,
} from "@roamfleet/protocol/link";
import { maskingFor } from "@roamfleet/protocol/masking";
import { type ClientOptions, WebSocket } from "ws";
import { errorText } from "../disk/write-atomically.ts";
import { envelopeMessage } from "../http/request.ts";
import { certificateComplaint } from "../http/trust.ts";
import { retryAfterMs, sensibleWaitMs } from "./backoff.ts";

/** Timeout of the name lookup and the TCP connection. */
const CONNECT_TIMEOUT_MS = 30_000;
/** Timeout of the TLS handshake. When all robots reconnect, the server performs handshakes one by one and needs 45 s for the last. */
const HANDSHAKE_TIMEOUT_MS = 60_000;
/** Timeout between the handshake and the server's response. The server keeps connections in a queue for up to 45 s. */
const ANSWER_TIMEOUT_MS = 60_000;
const REFUSAL_BYTES_MAX = 16 * 1024;
const SLOT_CHARACTERS_MAX = 100;
/**
 * HTTP statuses for "not authorized", "wrong address" and "no common protocol version". The robot retries slowly after them, since a
 * retry after a minute would have the same result.
 */
const SLOW_STATUSES = [401, 403, 404, 426];

/** Reports why the link could not be opened. If the server requested a wait, it also contains that wait. */
export class ConnectFailed extends Error {
  readonly retry_after_ms: number | undefined;
  /** True if only a person can fix the problem: the robot retries slowly. */
  readonly slow: boolean;
  /** Token of the admission slot that the server reserved. The next attempt sends it. */
  readonly slot: string | undefined;

  constructor(reason: string, wait: { retry_after_ms?: number | undefined; slow?: boolean; slot?: string | undefined } = {}) {
    super(reason);
    this.retry_after_ms = wait.retry_after_ms;
    this.slow = wait.slow ?? false;
    this.slot = wait.slot;
  }
}

export interface SocketAddress {
  host: string;
  port: number;
  is_secure: boolean;
  /** TLS session to resume, if there is one. */
  session?: Buffer | undefined;
}

/**
 * The newest TLS session with the server. A connection that resumes it needs no certificates, which saves about 2 KB and most of the
 * CPU time of a handshake. If the server no longer knows the session, the handshake is a full one.
 */
export interface TlsSession {
  resumable?: Buffer | undefined;
}

/**
 * Opens a socket, now or later, and passes it to `opened` while it is still connecting. After the signal is aborted it opens none.
 */
export type OpenSocket = (address: SocketAddress, opened: (error: null, socket: Socket) => void, signal: AbortSignal) => void;

interface ConnectOptions {
  /** http or https address of the server. */
  server: string;
  /** PEM of the only trusted authority; absent: the machine's trusted authorities. */
  ca?: string | undefined;
  /** Opens the connection; absent: a new agent that trusts `ca`. */
  agent?: Agent | undefined;
  /** Token of the admission slot that the server reserved when it last refused this robot. */
  slot?: string | undefined;
  /** Kept between connections to the server. */
  tls_session?: TlsSession | undefined;
  clock: Clock;
  activity?: Activity;
  signal: AbortSignal;
  /** Opens the socket, for a process that simulates many robots. Absent: a new socket that trusts `ca`. */
  open_socket?: OpenSocket | undefined;
  /**
   * Called before the first message can arrive, so that the callback can add listeners. `channel` is the TLS channel binding, or ""
   * without TLS.
   */
  on_open: (socket: WebSocket, channel: string) => void;
}

/** Adapts `open_socket` to Node's createConnection, which returns undefined when it passes the socket to the callback. */
function connectionBy(
  open_socket: OpenSocket,
  { server, signal, tls_session }: ConnectOptions,
): NonNullable<ClientOptions["createConnection"]> {
  const { protocol, hostname, port } = new URL(server);
  const is_secure = protocol === "https:";
  const address = {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: Number(port || (is_secure ? 443 : 80)),
    is_secure,
    session: tls_session?.resumable,
  };
  const open = (_options: unknown, opened: Parameters<OpenSocket>[1]): void => open_socket(address, opened, signal);
  return open as unknown as NonNullable<ClientOptions["createConnection"]>;
}

/** Opens the robot's WebSocket. Rejects with ConnectFailed. */
export function connect(options: ConnectOptions): Promise<void> {
  const { server, ca, agent, slot, tls_session = {}, open_socket, clock, activity = idleActivity, signal, on_open } = options;
  const ended = activity.begin();
  return new Promise<void>((resolve, reject) => {
    const socket = new WebSocket(`${server.replace(/^http/, "ws")}/agent/ws`, LINK_SUBPROTOCOL, {
      ...(ca === undefined ? {} : { ca }),
      ...(agent === undefined ? {} : { agent }),
      ...(slot === undefined ? {} : { headers: { [LINK_SLOT_HEADER]: slot } }),
      // The robot's signature contains the TLS channel binding, which requires TLS 1.3.
      minVersion: "TLSv1.3",
      ...(tls_session.resumable === undefined ? {} : { session: tls_session.resumable }),
      perMessageDeflate: false,
      followRedirects: false,
      ...maskingFor(server),
      ...(open_socket === undefined ? {} : { createConnection: connectionBy(open_socket, options) }),
      maxPayload: FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX,
      finishRequest: (request) => {
        request.once("socket", (tcp) => {
          const awaitAnswer = (): void => waitFor("response", ANSWER_TIMEOUT_MS);
          if (!tcp.connecting && agent !== undefined) return awaitAnswer();
          waitFor("connection", CONNECT_TIMEOUT_MS);
          if (!(tcp instanceof TLSSocket)) return tcp.once("connect", awaitAnswer);
          tcp.on("session", (session: Buffer) => (tls_session.resumable = session));
          tcp.once("connect", () => (is_shaking_hands = true)).once("secureConnect", () => (is_shaking_hands = false));
          return tcp.once("connect", () => waitFor("TLS handshake", HANDSHAKE_TIMEOUT_MS)).once("secureConnect", awaitAnswer);
        });
        request.end();
      },
    });
    let is_shaking_hands = false;
    let settled = false;
    const settle = (failure?: ConnectFailed): void => {
      if (settled) return;
      settled = true;
      timer?.cancel();
      signal.removeEventListener("abort", give_up);
      if (failure === undefined) return resolve();
      socket.terminate();
      reject(failure);
    };
    const give_up = (): void => settle(new ConnectFailed("the agent is stopping"));
    // Start the timeout when the socket exists, since simulated robots wait in a queue for their socket.
    let timer: Timer | undefined;
    const waitFor = (what: string, ms: number): void => {
      timer?.cancel();
      if (!settled) timer = clock.setTimer(ms, () => settle(new ConnectFailed(`no ${what} after ${ms / 1000} s`)));
    };
    // An HTTP agent returns its socket only after the TLS handshake. So one timeout covers the connection and the handshake.
    if (agent !== undefined) waitFor("connection", CONNECT_TIMEOUT_MS + HANDSHAKE_TIMEOUT_MS);
    signal.addEventListener("abort", give_up, { once: true });
    if (signal.aborted) give_up();
    // Keep this listener as long as the socket exists. After an error the socket also emits `close`, which ends the session.
    socket.on("error", (error) => {
      // In case the resumed session is the cause, the next attempt makes a full handshake.
      if (is_shaking_hands) tls_session.resumable = undefined;
      settle(new ConnectFailed(certificateComplaint(error, ca) ?? errorText(error)));
    });
    socket.on("unexpected-response", (_request, response) => void refusal(response, clock).then(settle));
    let channel = "";
    socket.on("upgrade", (response) => (channel = channelBinding(response.socket)));
    socket.on("open", () => {
      if (settled) return socket.terminate();
      on_open(socket, channel);
      settle();
    });
  }).finally(ended);
}

/** Converts the server's HTTP response to an error, for a server that did not upgrade the connection. */
async function refusal(response: IncomingMessage, clock: Clock): Promise<ConnectFailed> {
  const status = response.statusCode ?? 0;
  const { date, "retry-after": retry_after, [RETRY_AFTER_MS_HEADER]: retry_after_ms_text, [LINK_SLOT_HEADER]: slot } = response.headers;
  const exact = retry_after_ms_text === undefined ? undefined : sensibleWaitMs(Number(retry_after_ms_text));
  const retry_after_ms = exact ?? retryAfterMs(retry_after, date, clock);
  const message = envelopeMessage(await firstBytes(response)) ?? `HTTP status ${status}`;
  return new ConnectFailed(`the server refused the link: ${message}`, {
    retry_after_ms,
    slow: SLOW_STATUSES.includes(status),
    slot: typeof slot === "string" && slot.length <= SLOT_CHARACTERS_MAX ? slot : undefined,
  });
}

/** Returns the first bytes of a response's body. It needs no timeout: the response timeout destroys the socket. */
async function firstBytes(response: IncomingMessage): Promise<string> {
  let text = "";
  try {
    for await (const chunk of response) {
      text += String(chunk);
      if (text.length > REFUSAL_BYTES_MAX) break;
    }
  } catch {
    // The connection broke while the body was read. The status is enough for the error message.
  }
  return text;
}
