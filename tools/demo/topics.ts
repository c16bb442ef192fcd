import { once } from "node:events";
import { existsSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import type { Processes } from "./processes.ts";

/** Debian's Python, for which its ROS packages are built. */
const PYTHON = "/usr/bin/python3";
const ROS_PARTS = ["rosmaster", "rospy", "std_msgs", "sensor_msgs"].map((name) => `/usr/lib/python3/dist-packages/${name}`);

/**
 * Starts a separate ROS 1 master and a publisher, and returns the master's address; undefined if Debian's ROS 1 is not installed. Robots
 * prefer a ROS that already runs on this machine.
 */
export async function startTopics(processes: Processes, data: string): Promise<string | undefined> {
  if (!ROS_PARTS.every((part) => existsSync(part))) return undefined;
  const port = await freePort();
  const uri = `http://127.0.0.1:${port}`;
  const script = path.join(import.meta.dirname, "topics.py");
  const env = { ROS_MASTER_URI: uri, ROS_HOSTNAME: "127.0.0.1", ROS_HOME: path.join(data, "demo", "ros") };
  processes.startExtra({ name: "topics", program: PYTHON, args: [script, String(port)], env });
  return uri;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
