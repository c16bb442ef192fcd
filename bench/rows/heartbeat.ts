import net from "node:net";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { encodeFrame, FLAG_REPLY, decodeFrame, FrameType } from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import { atRest, cpuMicroseconds, ratioOf, sample } from "../measure.ts";
import { concurrently, connectRobot, insertRobots } from "../robots.ts";
import type { Program, Rig } from "../rig.ts";
import type { Row } from "../row.ts";

const CONNECT_AT_A_TIME = 50;
const HEARTBEAT_ROBOTS = 100;
const HEARTBEATS_EACH = 2_000;
const HEARTBEATS_QUICK = 100;
const ROUNDS = 7;

async function startSockets(rig: Rig): Promise<{ program: Program; tcp_port: number }> {
  const tcp_port = await freePort();
  const env = { TCP_PORT: String(tcp_port), REPLY_BYTES: String(REPLY_BYTES) };
  return { program: await rig.start("limits/sockets", env), tcp_port };
}

export const heartbeat: Row = {
  name: "heartbeat",
  area: "links",
  about: "a robot's heartbeat and its reply; compared with a TCP server that reads and writes as many bytes",
  run: async (rig) => {
    const { program, tcp_port } = await startSockets(rig);
    const robots = await insertRobots(rig, HEARTBEAT_ROBOTS);
    const links = await concurrently(robots, CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server, robot));
    const raw = await concurrently(Array.from({ length: HEARTBEAT_ROBOTS }), CONNECT_AT_A_TIME, () => connectTcp(tcp_port));
    const each = rig.quick ? HEARTBEATS_QUICK : HEARTBEATS_EACH;
    const beats = HEARTBEAT_ROBOTS * each;
    const [ours, limit]: [number[], number[]] = [[], []];
    for (let i = 0; i <= (rig.quick ? 1 : ROUNDS); i += 1) {
      const a = await cpuOf(rig.server.pid, () => Promise.all(links.map((link) => beatLink(link, each))));
      const b = await cpuOf(program.pid, () => Promise.all(raw.map((socket) => beatTcp(socket, each))));
      if (i === 0) continue; // warms up
      ours.push(a / beats);
      limit.push(b / beats);
    }
    for (const link of links) link.terminate();
    for (const socket of raw) socket.destroy();
    await program.stop();
    const [us, them] = [sample(ours), sample(limit)];
    const ratio = ratioOf(us, them);
    return { ours: us, limit: them, unit: "µs CPU", ratio, goal: "≤ 1.8", met: ratio <= 1.8, ours_cpu_us: us, limit_cpu_us: them };
  },
};

async function cpuOf(pid: number, work: () => Promise<unknown>): Promise<number> {
  const before = cpuMicroseconds(pid);
  await work();
  await atRest(pid);
  return cpuMicroseconds(pid) - before;
}

const connectTcp = (port: number): Promise<net.Socket> =>
  new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true }, () => resolve(socket)).once("error", reject);
  });

/** Sends heartbeats of one robot: each in a separate packet, after the reply to the previous one, as in practice. */
function beatLink(socket: WebSocket, beats: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = beats;
    const ping = encodeFrame(FrameType.PING, 0, Buffer.alloc(0));
    const onMessage = (data: Buffer): void => {
      const frame = decodeFrame(data);
      if (frame.type !== FrameType.PING || (frame.flags & FLAG_REPLY) === 0) return;
      left -= 1;
      if (left > 0) return socket.send(ping);
      socket.off("message", onMessage);
      resolve();
    };
    socket.on("message", onMessage).once("error", reject);
    socket.send(ping);
  });
}

/** As many bytes as our heartbeat takes on the wire: a WebSocket frame with a payload of 8 bytes has 14 with its mask. */
const BYTES = Buffer.alloc(14, 1);
/** The reply has no mask. */
const REPLY_BYTES = 10;

/** As `beatLink`, with the same number of bytes. */
function beatTcp(socket: net.Socket, beats: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = beats;
    const onData = (): void => {
      left -= 1;
      if (left > 0) return void socket.write(BYTES);
      socket.off("data", onData);
      resolve();
    };
    socket.on("data", onData).once("error", reject);
    socket.write(BYTES);
  });
}
