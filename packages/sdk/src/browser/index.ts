import { fillPath, fleetStreamPaths, type FleetStreamName, type StreamName, streamPaths } from "@roamfleet/protocol/paths";
import { type Connection, openConnection, urlOf } from "../connection.ts";
import type { Body, ClientOptions, Query } from "../options.ts";
import { routesClient } from "../routes-client.ts";
import type { RoutesClient } from "../types.ts";
import type { UploadBlobArguments } from "./upload.ts";

export { ApiError, Unreachable } from "../errors.ts";
export type { Arguments, Body, JsonRouteName, ListRouteName, Rest } from "../options.ts";
export type { UploadBlobArguments };

/** Client for a web page that the service itself serves. A session cookie replaces the token. */
export interface BrowserClient extends RoutesClient {
  /** Uploads a release's artifact, resuming an earlier upload. */
  upload(args: UploadBlobArguments): Promise<Body<"getRelease">>;
  /** Opens a live stream of a robot or a fleet. */
  socket(name: StreamName | FleetStreamName, args: SocketArguments): SocketStream;
}

export function createBrowserClient(options: Omit<ClientOptions, "ca" | "token">): BrowserClient {
  const connection = openConnection(options);
  return Object.assign(routesClient(connection), {
    upload: async (args: UploadBlobArguments) => (await import("./upload.ts")).uploadBlob(connection, args),
    socket: (name: StreamName | FleetStreamName, args: SocketArguments) => openSocket(connection, name, args),
  });
}

export interface SocketArguments {
  /** Id of the robot or the fleet. */
  id: string;
  query?: Query | undefined;
  /** WebSocket subprotocols to offer. */
  protocols?: readonly string[] | undefined;
  /** Called with each frame: text, or bytes of a binary frame. */
  on_frame: (data: string | ArrayBuffer) => void;
  /** Called once when the stream is open, with the subprotocol that the server selected. */
  on_open?: ((protocol: string) => void) | undefined;
  /** Called once when the stream has ended. No frames follow. */
  on_end: (ending: SocketEnding) => void;
}

/** Close code and reason; 1006 if the connection was lost or the server refused it. */
export interface SocketEnding {
  code: number;
  reason: string;
  /** Whether the connection ever opened. If not, browsers do not expose why. */
  was_open: boolean;
}

export interface SocketStream {
  /** Bytes passed to `send` and not sent yet. */
  readonly waiting_bytes: number;
  /** Sends a frame. Does nothing if the stream is not open. */
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
}

/** Opens a live stream with the browser's WebSocket, authenticated by the session cookie. */
function openSocket(connection: Connection, name: StreamName | FleetStreamName, args: SocketArguments): SocketStream {
  const path = fillPath({ ...streamPaths, ...fleetStreamPaths }[name], { id: args.id });
  const socket = new WebSocket(urlOf(connection, path, args.query).replace(/^http/, "ws"), [...(args.protocols ?? [])]);
  socket.binaryType = "arraybuffer";
  let was_open = false;
  socket.addEventListener("open", () => {
    was_open = true;
    args.on_open?.(socket.protocol);
  });
  socket.addEventListener("message", ({ data }: MessageEvent<string | ArrayBuffer>) => args.on_frame(data));
  socket.addEventListener("close", ({ code, reason }) => args.on_end({ code, reason, was_open }), { once: true });
  return {
    get waiting_bytes() {
      return socket.bufferedAmount;
    },
    send: (data) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(data);
    },
    close: () => socket.close(1000),
  };
}
