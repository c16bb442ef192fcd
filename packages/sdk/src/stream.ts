import { fillPath, type FleetStreamName, fleetStreamPaths, type StreamName, streamPaths } from "@roamfleet/protocol/paths";
import { maskingFor } from "@roamfleet/protocol/masking";
import type { IncomingMessage } from "node:http";
import type { RawData, WebSocket } from "ws";
import { type Connection, credentialHeaders, urlOf } from "./connection.ts";
import { ApiError, unreachable } from "./errors.ts";
import { readIncoming, readJson } from "./incoming.ts";
import type { Query } from "./options.ts";
import { proxiedAgent } from "./proxied-agent.ts";

const HANDSHAKE_MS_MAX = 15_000;
const PING_INTERVAL_MS = 20_000;
/** The connection counts as lost when neither a frame nor a pong has arrived for this long. */
const SILENCE_MS_MAX = 60_000;
/** Maximum frames buffered for a slow consumer. At this number, the socket is paused. */
const STREAM_FRAMES_MAX = 1_000;
const STREAM_BYTES_MAX = 4 * 1024 * 1024;
/** When more bytes than this are queued for sending, `send` waits. */
const SEND_BYTES_MAX = 256 * 1024;
const FRAME_BYTES_MAX = 16 * 1024 * 1024;

export interface StreamOptions {
  query?: Query | undefined;
  /** WebSocket subprotocols to offer; the server selects one that it supports, or none. */
  protocols?: readonly string[] | undefined;
  /** Signal that closes the stream when it is aborted. */
  signal?: AbortSignal | undefined;
}

export interface StreamArguments extends StreamOptions {
  robot_id: string;
}

export interface FleetStreamArguments extends StreamOptions {
  fleet_id: string;
}

export interface Frame {
  binary: boolean;
  data: Buffer;
}

/** Why a stream ended: a close code of the protocol, 1006 for a lost connection. */
export interface Ending {
  code: number;
  reason: string;
}

/** Yields frames as they arrive. The iteration ends when the stream ends; `ending` then contains the reason. */
export interface Stream extends AsyncIterable<Frame> {
  readonly ending: Ending | undefined;
  /** The subprotocol that the server selected; empty: none. */
  readonly protocol: string;
  /**
   * Sends a string as a text frame, or bytes as a binary frame. Do not change the bytes afterwards. Resolves when more can be sent or the
   * stream has ended.
   */
  send(data: string | Uint8Array): Promise<void>;
  close(): void;
}

/** Opens a stream. Throws ApiError if the server refuses it and Unreachable if it does not respond. */
export async function openStream(
  connection: Connection,
  name: StreamName | FleetStreamName,
  args: StreamArguments | FleetStreamArguments,
): Promise<Stream> {
  args.signal?.throwIfAborted();
  const { WebSocket: Socket } = await import("ws");
  // The caller may have aborted during the import.
  args.signal?.throwIfAborted();
  const path = fillPath({ ...streamPaths, ...fleetStreamPaths }[name], { id: "fleet_id" in args ? args.fleet_id : args.robot_id });
  const url = urlOf(connection, path, { ...args.query, org_id: connection.org_id }).replace(/^http/, "ws");
  // Send the token in a header and not in the query, because proxies log queries.
  const { authorization } = credentialHeaders(connection, path);
  const socket = new Socket(url, [...(args.protocols ?? [])], {
    headers: authorization === undefined ? {} : { authorization },
    handshakeTimeout: HANDSHAKE_MS_MAX,
    maxPayload: FRAME_BYTES_MAX,
    perMessageDeflate: false,
    ...maskingFor(connection.base_url),
    ...connection.tls,
    agent: proxiedAgent(url, { keepAlive: false }),
  });
  const stream = new SocketStream(connection, socket);
  const abort = (): void => socket.terminate();
  args.signal?.addEventListener("abort", abort, { once: true });
  socket.once("close", () => args.signal?.removeEventListener("abort", abort));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("unexpected-response", (_request, response) => {
      refusal(response)
        .then(reject, reject)
        .finally(() => socket.terminate());
    });
    socket.once("error", (error) => reject(unreachable(connection.base_url, error)));
  }).catch((error: unknown) => {
    args.signal?.throwIfAborted();
    throw error;
  });
  return stream;
}

/** The error response that the server returned instead of the upgrade. */
async function refusal(incoming: IncomingMessage): Promise<unknown> {
  const { status, headers, body } = await readJson(await readIncoming(incoming));
  return new ApiError({ status, headers, body });
}

class SocketStream implements Stream {
  ending: Ending | undefined;
  readonly #socket: WebSocket;
  readonly #frames: Frame[] = [];
  #bytes = 0;
  #wake: (() => void) | undefined;
  /** Resolve functions of the callers that wait in `send`. */
  readonly #room = new Set<() => void>();

  constructor(connection: Connection, socket: WebSocket) {
    this.#socket = socket;
    let heard_at_ms = connection.clock.monotonic();
    const hear = (): void => {
      heard_at_ms = connection.clock.monotonic();
    };
    const pulse = connection.clock.every(PING_INTERVAL_MS, () => {
      // A pause must not count as a lost connection: while the consumer is slow, the socket is paused and receives no pongs.
      if (socket.isPaused) hear();
      if (connection.clock.monotonic() - heard_at_ms > SILENCE_MS_MAX) return socket.terminate();
      if (socket.readyState === socket.OPEN) socket.ping();
    });
    socket.on("ping", hear);
    socket.on("pong", hear);
    socket.on("message", (data: RawData, binary) => {
      hear();
      const frame = { binary, data: Buffer.isBuffer(data) ? data : Buffer.concat(Array.isArray(data) ? data : [Buffer.from(data)]) };
      this.#frames.push(frame);
      this.#bytes += frame.data.length;
      if (this.#frames.length >= STREAM_FRAMES_MAX || this.#bytes >= STREAM_BYTES_MAX) socket.pause();
      this.#wake?.();
    });
    // Without a listener, an error after the handshake would end the process. The close event contains the reason.
    socket.on("error", () => {});
    socket.on("close", (code, reason) => {
      pulse.cancel();
      this.ending = { code, reason: reason.toString() };
      this.#wake?.();
      for (const resolve of this.#room) resolve();
    });
  }

  get protocol(): string {
    return this.#socket.protocol;
  }

  async send(data: string | Uint8Array): Promise<void> {
    const socket = this.#socket;
    if (socket.readyState !== socket.OPEN) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#room.add(resolve);
    // ws calls this function when the data was sent or sending has failed.
    socket.send(data, () => resolve());
    if (socket.bufferedAmount > SEND_BYTES_MAX) await promise;
    this.#room.delete(resolve);
  }

  close(): void {
    this.#socket.close(1000);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Frame, void, void> {
    try {
      for (;;) {
        const frame = this.#frames.shift();
        if (frame !== undefined) {
          this.#bytes -= frame.data.length;
          if (this.#socket.isPaused && this.#frames.length < STREAM_FRAMES_MAX / 2 && this.#bytes < STREAM_BYTES_MAX / 2)
            this.#socket.resume();
          yield frame;
        } else if (this.ending !== undefined) return;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#socket.terminate();
    }
  }
}
