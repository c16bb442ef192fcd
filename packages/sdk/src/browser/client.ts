import type { FleetStreamName, StreamName } from "@roamfleet/protocol/paths";
import { openConnection } from "../connection.ts";
import type { ClientOptions } from "../options.ts";
import type { Body } from "../route-types.ts";
import { routesClient } from "../routes-client.ts";
import type { RoutesClient } from "../types.ts";
import { openSocket, type SocketArguments, type SocketStream } from "./socket.ts";
import type { UploadBlobArguments } from "./upload.ts";

/** Creates a client for a page served by the service: a session cookie replaces the token. */
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
