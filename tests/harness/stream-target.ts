import { fillPath, type StreamName, streamPaths } from "@roamfleet/protocol/paths";

/** Required query parameters of each stream, without credentials. */
const QUERIES: Record<StreamName, Record<string, string>> = {
  logs: {},
  shell: {},
  camera: {},
  ros_echo: { topic: "/chatter" },
  forward: { port: "22" },
  files: {},
};
export const STREAM_NAMES = Object.keys(streamPaths) as StreamName[];

/** Returns a valid path and query for a stream of a robot. `query` is added to the required parameters. */
export function streamTarget(name: StreamName, id: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams({ ...QUERIES[name], ...query }).toString();
  return fillPath(streamPaths[name], { id }) + (search === "" ? "" : `?${search}`);
}
