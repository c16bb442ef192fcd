import { fillPath, type StreamName, streamPaths } from "@roamfleet/protocol/paths";

/** What the URL of a stream must say beside who asks. */
const QUERIES: Record<StreamName, Record<string, string>> = {
  logs: {},
  shell: {},
  camera: {},
  ros_echo: { topic: "/chatter" },
  forward: { port: "22" },
  files: {},
};
export const STREAM_NAMES = Object.keys(streamPaths) as StreamName[];

/** Path and query of a stream of a robot, as it may be asked for; `query` goes with what it must say. */
export function streamTarget(name: StreamName, id: string, query: Record<string, string> = {}): string {
  const search = new URLSearchParams({ ...QUERIES[name], ...query }).toString();
  return fillPath(streamPaths[name], { id }) + (search === "" ? "" : `?${search}`);
}
