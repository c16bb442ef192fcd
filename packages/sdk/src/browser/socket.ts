import { fillPath, fleetStreamPaths, type FleetStreamName, type StreamName, streamPaths } from "@robofleet/protocol/paths";
import { type Connection, urlOf } from "../connection.ts";
import type { Query } from "../options.ts";

export interface SocketArguments {
  /** Id of the robot or the fleet. */
  id: string;
  query?: Query | undefined;
  /** WebSocket subprotocols to offer. */
  protocols?: readonly string[] | undefined;
  /** Called with each frame: text, or the bytes of a binary one. */
  on_frame: (data: string | ArrayBuffer) => void;
  /** Called once when it is open, with the subprotocol that the server took. */
  on_open?: ((protocol: string) => void) | undefined;
  /** Called once when it has ended; nothing comes afterwards. */
  on_end: (ending: SocketEnding) => void;
}

/** Why it ended: a close code of the protocol; 1006 when the connection was cut or the server refused it. */
export interface SocketEnding {
  code: number;
  reason: string;
  /** False when it was never open: a browser does not say why. */
  was_open: boolean;
}

export interface SocketStream {
  /** What could not be sent yet, in bytes. */
  readonly waiting_bytes: number;
  /** Says nothing and does nothing when it is not open. */
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(): void;
}

/** A live stream by the browser's own WebSocket; the cookie of the session opens it. */
export function openSocket(connection: Connection, name: StreamName | FleetStreamName, args: SocketArguments): SocketStream {
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
