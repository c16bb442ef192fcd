import type { AccessRow, FleetStreamName, Role, StreamName } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { Nodes } from "../../link/index.ts";
import type { ShellRegistry } from "../shells/index.ts";
import type { Hub } from "./hub.ts";
import type { Viewer } from "./viewer.ts";

/** The objects that all streams of a server share. */
export interface StreamContext {
  plane: Plane;
  /** The other servers of the installation. Undefined if there is only one server. */
  nodes?: Nodes | undefined;
  hub: Hub;
  /** All viewers of this server. */
  viewers: ReadonlySet<Viewer>;
  shells: ShellRegistry;
}

/** Starts to serve a viewer. Resolves when the initial data has been sent to the viewer. */
export type StartStream = (context: StreamContext, viewer: Viewer) => Promise<void>;

/** The robot or fleet that a stream is for. */
export interface StreamOf {
  id: string;
  plane: Plane;
}

export interface StreamKind {
  readonly name: StreamName | FleetStreamName;
  /** The kind of object whose id is in the path of the stream. */
  readonly of: "robot" | "fleet";
  readonly row: AccessRow;
  readonly role: Role;
  readonly pattern: RegExp;
  /** The query parameters of this kind, in addition to those of every stream. */
  readonly query: readonly string[];
  /** The WebSocket subprotocol of this kind. It is used only if the client offers it. */
  readonly subprotocol?: string;
  /** Whether the stream can be opened while the robot is not connected. Then the stream ends after the stored data. */
  readonly offline?: boolean;
  /**
   * Checks the query before the connection is upgraded, and returns the function that starts the stream. Throws the error that the client
   * gets.
   */
  prepare(query: URLSearchParams, of: StreamOf): StartStream;
}
