import { connect } from "node:net";
import type { FindRosAdapter, RosAdapterName, RosAdapterOptions } from "./adapter.ts";
import { isDdsLikely } from "./dds/is-likely.ts";

/** Default address of each server; the adapters use the same ones. */
export const USUAL_PLACES = {
  foxglove: "ws://127.0.0.1:8765",
  rosbridge: "ws://127.0.0.1:9090",
  ros1: "http://127.0.0.1:11311",
} as const;

/**
 * How each adapter is found. Its modules are imported once success is likely: on a robot without ROS, where searches repeat forever, they would only
 * take memory.
 */
export const rosFinders: Partial<Record<RosAdapterName, FindRosAdapter>> = {
  dds: async (options) => (isDdsLikely(options.settings) ? (await import("./dds/dds-adapter.ts")).findDds(options) : undefined),
  foxglove: async (options) =>
    (await listens(options.settings.foxglove_url ?? USUAL_PLACES.foxglove, options))
      ? (await import("./foxglove/foxglove.ts")).findFoxglove(options)
      : undefined,
  ros2: async (options) => (await import("./ros2-cli/ros2-cli.ts")).findRos2(options),
  rosbridge: async (options) =>
    (await listens(options.settings.rosbridge_url ?? USUAL_PLACES.rosbridge, options))
      ? (await import("./rosbridge/rosbridge.ts")).findRosbridge(options)
      : undefined,
  ros1: async (options) =>
    (await listens(options.settings.ros1_master_uri ?? USUAL_PLACES.ros1, options))
      ? (await import("./ros1/ros1.ts")).findRos1(options)
      : undefined,
};

const CONNECT_MS = 3_000;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { "http:": 80, "ws:": 80, "https:": 443, "wss:": 443 };

/** Whether a server accepts a connection there. */
function listens(url: string, { clock, signal }: Pick<RosAdapterOptions, "clock" | "signal">): Promise<boolean> {
  const { protocol, hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? (DEFAULT_PORTS[protocol] ?? 80) : Number(port) });
    const settled = (is: boolean) => (): void => {
      timeout.cancel();
      signal.removeEventListener("abort", given_up);
      socket.destroy();
      resolve(is);
    };
    const given_up = settled(false);
    const timeout = clock.setTimer(CONNECT_MS, given_up);
    signal.addEventListener("abort", given_up, { once: true });
    socket.once("connect", settled(true));
    socket.once("error", given_up);
  });
}
