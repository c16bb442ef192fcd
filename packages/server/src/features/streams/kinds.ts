import { fleetStreamAccess, fleetStreamPaths, streamAccess, type StreamName, streamPaths } from "@roamfleet/protocol";
import { startFiles } from "./files-stream.ts";
import { CAMERA_QUERY, prepareCamera } from "./camera-stream.ts";
import { prepareForward } from "./forward-stream.ts";
import { LOG_STREAM_QUERY, prepareLogs } from "./log-stream.ts";
import { prepareFleetLogs } from "./fleet-log-stream.ts";
import { prepareRosEcho, ROS_ECHO_QUERY } from "./ros-echo-stream.ts";
import { prepareShell, SHELL_SUBPROTOCOL } from "./shell-stream.ts";
import type { StreamKind } from "./stream-kind.ts";

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
