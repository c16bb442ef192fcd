import type { AccessRow, FleetStreamName, Role, StreamName } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { Nodes } from "../../link/index.ts";
import type { ShellRegistry } from "../shells/index.ts";
import type { Hub } from "./hub.ts";
import type { Viewer } from "./viewer.ts";

/** Objects shared by the streams of a server. */
export interface StreamContext {
  plane: Plane;
  /** Other servers of the installation; undefined for a single server. */
  nodes?: Nodes | undefined;
  hub: Hub;
  /** All viewers of this server. */
  viewers: ReadonlySet<Viewer>;
  shells: ShellRegistry;
}

/** Starts to serve a viewer. Resolves when the initial data has been sent. */
export type StartStream = (context: StreamContext, viewer: Viewer) => Promise<void>;

/** The robot or fleet of a stream. */
export interface StreamOf {
  id: string;
  plane: Plane;
}

export interface StreamKind {
  readonly name: StreamName | FleetStreamName;
  /** The kind of object that the path of the stream names. */
  readonly of: "robot" | "fleet";
  readonly row: AccessRow;
  readonly role: Role;
  readonly pattern: RegExp;
  /** Its query parameters, in addition to those of every stream. */
  readonly query: readonly string[];
  /** The WebSocket subprotocol that it uses if the client offers it; otherwise frames are plain. */
  readonly subprotocol?: string;
  /** Whether the stream is available while the robot is not connected. Then it ends after the stored data. */
  readonly offline?: boolean;
  /** Checks the query before the upgrade. Throws the Fault that the client gets. */
  prepare(query: URLSearchParams, of: StreamOf): StartStream;
}
