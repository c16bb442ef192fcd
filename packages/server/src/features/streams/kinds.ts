import {
  type AccessRow,
  fleetStreamAccess,
  type FleetStreamName,
  fleetStreamPaths,
  type Role,
  streamAccess,
  type StreamName,
  streamPaths,
} from "@robofleet/protocol";
import type { Plane } from "../../context.ts";
import { startFiles } from "./files-stream.ts";
import { CAMERA_QUERY, prepareCamera } from "./camera-stream.ts";
import { prepareForward } from "./forward-stream.ts";
import type { ShellBook } from "../shells/index.ts";
import type { Hub } from "./hub.ts";
import { prepareLogs } from "./log-stream.ts";
import { LOG_STREAM_QUERY } from "./log-query.ts";
import { prepareFleetLogs } from "./fleet-log-stream.ts";
import { prepareRosEcho, ROS_ECHO_QUERY } from "./ros-echo-stream.ts";
import { prepareShell, SHELL_SUBPROTOCOL } from "./shell-stream.ts";
import type { Viewer } from "./viewer.ts";

/** What the streams of a server have in common. */
export interface StreamContext {
  plane: Plane;
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

const kind = (name: StreamName, rest: Pick<StreamKind, "query" | "subprotocol" | "offline" | "prepare">): StreamKind => ({
  name,
  of: "robot",
  row: streamAccess[name],
  role: streamAccess[name].access,
  pattern: new RegExp(`^${streamPaths[name].replace("{id}", "([^/]+)")}$`),
  ...rest,
});

const FLEET_LOGS: StreamKind = {
  name: "fleet_logs",
  of: "fleet",
  row: fleetStreamAccess.fleet_logs,
  role: fleetStreamAccess.fleet_logs.access,
  pattern: new RegExp(`^${fleetStreamPaths.fleet_logs.replace("{id}", "([^/]+)")}$`),
  query: LOG_STREAM_QUERY,
  offline: true,
  prepare: prepareFleetLogs,
};

/** The streams that a viewer may open. */
export const STREAM_KINDS: readonly StreamKind[] = [
  FLEET_LOGS,
  kind("logs", { query: LOG_STREAM_QUERY, offline: true, prepare: prepareLogs }),
  kind("shell", {
    query: ["cols", "rows", "app", "command", "terminal", "term"],
    subprotocol: SHELL_SUBPROTOCOL,
    prepare: prepareShell,
  }),
  kind("camera", { query: CAMERA_QUERY, prepare: prepareCamera }),
  kind("ros_echo", { query: ROS_ECHO_QUERY, prepare: prepareRosEcho }),
  kind("forward", { query: ["host", "port"], prepare: prepareForward }),
  kind("files", { query: [], prepare: () => startFiles }),
];
