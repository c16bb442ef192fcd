import { WebSocket } from "ws";
import { atRest, ratioOf, sample } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import { type BenchRobot, concurrently, connectRobot, insertRobots, type Server } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";
import { settled } from "../settled.ts";

const IDLE_ROBOTS = 5_000;
/**
 * Number of connections opened before the first measurement, so that one-time allocations of the server (code, pools, young generation) are
 * not counted as memory of robots.
 */
const EARLIER_ROBOTS = 1_500;
const CONNECT_AT_A_TIME = 50;
const LEAVE_AT_A_TIME = 250;
const RUNS = 3;
const RUNS_TLS = 1;
/** Goal over plain TCP, for the memory beyond that of a raw WebSocket. */
const PLAIN_KB_OVER_MAX = 8;
/** Goal over TLS, for the ratio of the total memory, including the socket and its TLS state. */
const TLS_RATIO_MAX = 1.1;

/** Returns the growth of memory in kilobytes per connection. The first connections are not counted. */
async function growth(program: Program, counts: { earlier: number; idle: number }, open: (i: number) => Promise<WebSocket>) {
  const connect = (from: number, count: number): Promise<WebSocket[]> =>
    concurrently(Array.from({ length: count }), CONNECT_AT_A_TIME, (_, i) => open(from + i));
  const earlier = await connect(0, counts.earlier);
  const before = (await settled(program)).resident;
  const idle = await connect(counts.earlier, counts.idle);
  const after = (await settled(program)).resident;
  const lost = [...earlier, ...idle].filter(({ readyState }) => readyState !== WebSocket.OPEN).length;
  if (lost > 0) throw new Error(`${lost} connections were lost while memory was looked at`);
  // Disconnect with limited concurrency, because each disconnect is a transaction of the server.
  const all = [...earlier, ...idle];
  for (let i = 0; i < all.length; i += LEAVE_AT_A_TIME) {
    for (const socket of all.slice(i, i + LEAVE_AT_A_TIME)) socket.terminate();
    await atRest(program.pid);
  }
  return (after - before) / 1024 / counts.idle;
}

const openRaw = ({ url, ca }: Server): Promise<WebSocket> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url.replace(/^http/, "ws"), { perMessageDeflate: false, ca });
    socket.once("open", () => resolve(socket)).once("error", reject);
  });

/** Alternates the variants, each time with a fresh process, because a used process has spare memory. */
async function measure(rig: Rig): Promise<Pick<Required<RowResult>, "ours" | "limit" | "ratio"> & { over: number }> {
  const counts = rig.quick ? { earlier: 200, idle: 800 } : { earlier: EARLIER_ROBOTS, idle: IDLE_ROBOTS };
  const ca = rig.certificate?.ca;
  const robots: BenchRobot[] = await insertRobots(rig, counts.earlier + counts.idle);
  const [ours, limit]: [number[], number[]] = [[], []];
  for (let i = 0; i < (rig.quick ? 1 : ca === undefined ? RUNS : RUNS_TLS); i += 1) {
    if (i > 0) await rig.restart();
    ours.push(await growth(rig.server, counts, (n) => connectRobot({ ...rig.server, ca }, robots[n] as BenchRobot, "desired")));
    const raw = await rig.start("limits/sockets", {}, { collectable: true });
    limit.push(await growth(raw, counts, () => openRaw({ ...raw, ca })));
    await raw.stop();
  }
  const [us, them] = [sample(ours), sample(limit)];
  return { ours: us, limit: them, ratio: ratioOf(us, them), over: us.median - them.median };
}

export const idleMemory: Row = {
  name: "idle-memory",
  area: "memory",
  about: `resident memory of the server for each of ${IDLE_ROBOTS} idle robots; compared with a server that only holds WebSockets`,
  server: { collectable: true },
  run: async (rig) => {
    const { over, ...result } = await measure(rig);
    return {
      ...result,
      unit: "KB",
      figure: `${over.toFixed(1)} KB over`,
      goal: `≤ ${PLAIN_KB_OVER_MAX} KB over`,
      met: over <= PLAIN_KB_OVER_MAX,
    };
  },
};

export const idleMemoryTls: Row = {
  name: "idle-memory-tls",
  area: "memory",
  about: `the same over TLS, including sockets and their TLS state; compared with a server that only holds WebSockets over TLS`,
  server: { collectable: true, tls: true },
  run: async (rig) => {
    const { over, ...result } = await measure(rig);
    return {
      ...result,
      unit: "KB",
      figure: `${over.toFixed(1)} KB over`,
      goal: `≤ ${TLS_RATIO_MAX} × the limit`,
      met: result.ratio <= TLS_RATIO_MAX,
    };
  },
};
