import { hash, randomBytes } from "node:crypto";
import { appendFileSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import os from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import type { StreamName } from "@roamfleet/protocol/paths";
import { stringify } from "yaml";
import type { RobotConfig } from "../../packages/agent/src/config-file/robot-config.ts";
import { RosbridgeServer } from "../../packages/agent/src/ros/testing/rosbridge-server.ts";

const FILE_BYTES = 64 * 1024;
const TOPIC = "/chatter";
const CAMERA = "test";

/** The surroundings of a robot, with content for each of its streams: a service, a topic, a camera, a file and a log. */
export class RobotSurroundings {
  readonly robot: Pick<RobotConfig, "shell" | "cameras" | "ros" | "logs" | "forward" | "files">;
  /** A readable file and its hash. */
  readonly file: { path: string; sha256: string };
  /** Appended to published messages to make them long. */
  padding = "";
  readonly #directory: string;
  readonly #log: string;
  readonly #port: number;
  readonly #ros: RosbridgeServer;

  private constructor(directory: string, port: number, ros: RosbridgeServer) {
    this.#directory = directory;
    this.#log = path.join(directory, "app.log");
    this.#port = port;
    this.#ros = ros;
    const bytes = randomBytes(FILE_BYTES);
    this.file = { path: path.join(directory, "map.bin"), sha256: hash("sha256", bytes) };
    writeFileSync(this.file.path, bytes);
    writeFileSync(this.#log, "");
    this.robot = {
      shell: { user: os.userInfo().username, command: ["bash", "--norc", "-i"] },
      cameras: [{ name: CAMERA, kind: "test_picture" }],
      ros: { adapters: ["rosbridge"], rosbridge_url: ros.url },
      logs: { journald: false, files: [this.#log], rosout: false, filters: [] },
      forward: { allow: [`127.0.0.1:${port}`] },
      files: { directories: [directory] },
    };
  }

  static async start(t: TestContext): Promise<RobotSurroundings> {
    const directory = realpathSync(mkdtempSync(path.join(os.tmpdir(), "roamfleet-around-")));
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    const ros = await RosbridgeServer.start(t, "/rosapi/");
    ros.topics.set(TOPIC, { type: "std_msgs/msg/String", typedefs: [] });
    return new RobotSurroundings(directory, await echoService(t), ros);
  }

  /** Writes the config file for an agent in a separate process. */
  writeConfig(): string {
    const { cameras, ...rest } = this.robot;
    const file = path.join(this.#directory, "agent.yaml");
    const text = stringify({
      ...rest,
      logs: { ...rest.logs, journald: "off", rosout: "off" },
      cameras: cameras.map(({ name }) => ({ name, test_picture: true })),
    });
    writeFileSync(file, text);
    return file;
  }

  /** Returns the query parameters with which a stream has content. */
  query(name: StreamName): Record<string, string> {
    if (name === "camera") return { camera: CAMERA, fps: "5", width: "160", height: "120" };
    if (name === "ros_echo") return { topic: TOPIC };
    return name === "forward" ? { port: String(this.#port) } : {};
  }

  writeLine(text: string): void {
    appendFileSync(this.#log, `${text}\n`);
  }

  publish(data: string): void {
    this.#ros.publish(TOPIC, { data: data + this.padding });
  }

  /** Writes another readable file. */
  writeFile(name: string, bytes: number): string {
    const file = path.join(this.#directory, name);
    writeFileSync(file, Buffer.alloc(bytes, name));
    return file;
  }
}

/** Starts an echo service on loopback. */
async function echoService(t: TestContext): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
