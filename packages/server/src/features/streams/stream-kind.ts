import type { AccessRow, FleetStreamName, Role, StreamName } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import type { Nodes } from "../../link/index.ts";
import type { ShellBook } from "../shells/index.ts";
import type { Hub } from "./hub.ts";
import type { Viewer } from "./viewer.ts";

/** What the streams of a server have in common. */
export interface StreamContext {
  plane: Plane;
  /** Other servers of the installation, where there may be any. */
  nodes?: Nodes | undefined;
  hub: Hub;
  /** Every viewer of this server. */
  viewers: ReadonlySet<Viewer>;
  shells: ShellBook;
}

/** Begins to serve a viewer; resolves when what is sent at the beginning has been sent. */
export type StartStream = (context: StreamContext, viewer: Viewer) => Promise<void>;

export interface StreamKind {
  readonly name: StreamName | FleetStreamName;
  /** What its path names. */
  readonly of: "robot" | "fleet";
  readonly row: AccessRow;
  readonly role: Role;
  readonly pattern: RegExp;
  /** Query parameters that it knows beside those of every stream. */
  readonly query: readonly string[];
  /** The WebSocket subprotocol that it speaks when it is offered; without it the frames are plain. */
  readonly subprotocol?: string;
  /** Also of a robot that is not connected: it ends by itself when all is said. */
  readonly offline?: boolean;
  /** Reads the query, before the upgrade: throws the Fault that the client is answered. */
  prepare(query: URLSearchParams): StartStream;
}
