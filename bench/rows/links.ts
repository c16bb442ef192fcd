import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { encodeFrame, FLAG_REPLY, decodeFrame, FrameType } from "@robofleet/protocol/link";
import { WebSocket } from "ws";
import { cpuMicroseconds, residentBytes, sample } from "../measure.ts";
import { connectRobot, insertRobots } from "../robots.ts";
import { freePort, type Program, type Rig } from "../rig.ts";
import type { Row } from "../row.ts";

const IDLE_ROBOTS = 5_000;
const CONNECT_AT_A_TIME = 50;
const SETTLE_MS = 3_000;
const HEARTBEAT_ROBOTS = 100;
const HEARTBEATS_EACH = 2_000;
const ROUNDS = 5;
/** Beyond a raw WebSocket, everything that we keep of an idle robot. */
const IDLE_KB_MAX = 8;

async function inBatches<T, R>(items: readonly T[], size: number, work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let i = 0; i < items.length; i += size) results.push(...(await Promise.all(items.slice(i, i + size).map(work))));
  return results;
}

/** Kilobytes that the process grew by for each of the connections. */
async function growth(program: Program, count: number, open: () => Promise<WebSocket[]>): Promise<number> {
  await sleep(SETTLE_MS);
  const before = residentBytes(program.pid);
  const sockets = await open();
  await sleep(SETTLE_MS);
  const kb = (residentBytes(program.pid) - before) / 1024 / count;
  for (const socket of sockets) socket.terminate();
  return kb;
}

const openRaw = (url: string): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"), { perMessageDeflate: false });
    socket.once("open", () => resolve(socket)).once("error", reject);
  });

async function startSockets(rig: Rig): Promise<{ program: Program; tcp_port: number }> {
  const tcp_port = await freePort();
  return { program: await rig.startLimit("sockets", { TCP_PORT: String(tcp_port) }), tcp_port };
}

export const idleMemory: Row = {
  name: "idle-memory",
  about: `resident memory of the server for each of ${IDLE_ROBOTS} idle robots; beside it a server that only holds WebSockets`,
  run: async (rig) => {
    const { program } = await startSockets(rig);
    const raw = await growth(program, IDLE_ROBOTS, () =>
      inBatches(Array.from({ length: IDLE_ROBOTS }), CONNECT_AT_A_TIME, () => openRaw(program.url)),
    );
    await program.stop();
    const robots = await insertRobots(rig, IDLE_ROBOTS);
    const ours = await growth(rig.server, IDLE_ROBOTS, () =>
      inBatches(robots, CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server.url, robot)),
    );
    const over = ours - raw;
    return {
      ours: sample([ours]),
      limit: sample([raw]),
      unit: "KB",
      ratio: ours / raw,
      figure: `${over.toFixed(1)} KB over`,
      goal: `≤ ${IDLE_KB_MAX} KB over`,
      met: over <= IDLE_KB_MAX,
    };
  },
};

export const heartbeat: Row = {
  name: "heartbeat",
  about: "a robot's heartbeat in, and its reply; beside it a TCP server that reads the same bytes",
  run: async (rig) => {
    const { program, tcp_port } = await startSockets(rig);
    const robots = await insertRobots(rig, HEARTBEAT_ROBOTS);
    const links = await inBatches(robots, CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server.url, robot));
    const raw = await inBatches(Array.from({ length: HEARTBEAT_ROBOTS }), CONNECT_AT_A_TIME, () => connectTcp(tcp_port));
    const beats = HEARTBEAT_ROBOTS * HEARTBEATS_EACH;
    const [ours, limit]: [number[], number[]] = [[], []];
    for (let i = 0; i <= ROUNDS; i += 1) {
      const a = await cpuOf(rig.server.pid, () => Promise.all(links.map(beatLink)));
      const b = await cpuOf(program.pid, () => Promise.all(raw.map(beatTcp)));
      if (i === 0) continue; // warms up
      ours.push(a / beats);
      limit.push(b / beats);
    }
    for (const link of links) link.terminate();
    for (const socket of raw) socket.destroy();
    await program.stop();
    const [us, them] = [sample(ours), sample(limit)];
    const ratio = us.median / them.median;
    return { ours: us, limit: them, unit: "µs CPU", ratio, goal: "≤ 1.8", met: ratio <= 1.8, ours_cpu_us: us, limit_cpu_us: them };
  },
};

async function cpuOf(pid: number, work: () => Promise<unknown>): Promise<number> {
  const before = cpuMicroseconds(pid);
  await work();
  return cpuMicroseconds(pid) - before;
}

const connectTcp = (port: number): Promise<net.Socket> =>
  new Promise((resolve, reject) => {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true }, () => resolve(socket)).once("error", reject);
  });

/** Heartbeats of one robot, each after the reply to the one before, as they come in practice: one packet each. */
function beatLink(socket: WebSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    let left = HEARTBEATS_EACH;
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

/** The same bytes on the wire: a masked WebSocket frame of 8 bytes is 14. */
const BYTES = Buffer.alloc(14, 1);

/** One packet per turn of the event loop, so that the reader cannot take many at once. */
async function beatTcp(socket: net.Socket): Promise<void> {
  for (let i = 0; i < HEARTBEATS_EACH; i += 1) {
    socket.write(BYTES);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
