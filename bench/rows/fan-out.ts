import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Order } from "../clients/robots.ts";
import { atRest, cpuMicroseconds, ratioOf, type Round, side } from "../measure.ts";
import type { Program } from "../rig.ts";
import type { Row } from "../row.ts";

/** Bytes of our frame including its header, but without the WebSocket header. */
const FRAME_BYTES = 1_024;
const WIRE_BYTES = FRAME_BYTES + 4;
const CLIENTS = 4;
const ROUNDS = 7;
/** Number of messages of a round. Each is sent to all robots before the next one. */
const MESSAGES = 5;
/** Number of open files that a server needs in addition to the robots' sockets. */
const OTHER_FILES = 1_000;
const QUICK_ROBOTS = 1_000;
const TIMEOUT_MS = 180_000;

/** Returns the number of robots that the limit of open files allows for the server and for the clients. */
function robotsPossible(): number {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return Math.min(Number(soft ?? 1_024), 20_000) - OTHER_FILES;
}

const portOf = ({ url }: Program): number => Number(new URL(url).port);

/** Sends each client its order and waits for all responses. */
async function order(clients: readonly ChildProcess[], what: Order): Promise<void> {
  const answers = answersOf(clients);
  for (const client of clients) client.send(what);
  await answers;
}

const answersOf = (clients: readonly ChildProcess[]): Promise<unknown> => Promise.all(clients.map(answerOf));

function answerOf(client: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: Error): void => {
      clearTimeout(late);
      client.off("message", onMessage).off("exit", onExit);
      if (error === undefined) resolve();
      else reject(error);
    };
    const onMessage = (): void => end();
    const onExit = (code: number | null): void => end(new Error(`a client ended with ${code}`));
    const late = setTimeout(() => end(new Error("a client did not answer in time")), TIMEOUT_MS);
    client.on("message", onMessage).on("exit", onExit);
  });
}

async function sendToAll(program: Program, clients: readonly ChildProcess[], robots: number): Promise<Round> {
  const port = portOf(program);
  await atRest(program.pid);
  const cpu = cpuMicroseconds(program.pid);
  let wall_ms = 0;
  for (let i = 0; i < MESSAGES; i += 1) {
    await order(clients, { do: "await", port, bytes: (robots / clients.length) * WIRE_BYTES });
    const answers = answersOf(clients);
    const started = performance.now();
    const response = await fetch(`${program.url}/send?bytes=${FRAME_BYTES}`);
    const connected = ((await response.json()) as { robots: number }).robots;
    if (connected !== robots) throw new Error(`${connected} of ${robots} robots are connected`);
    await answers;
    wall_ms += performance.now() - started;
  }
  await atRest(program.pid);
  const messages = robots * MESSAGES;
  return { wall_us: (wall_ms * 1_000) / messages, cpu_us: (cpuMicroseconds(program.pid) - cpu) / messages };
}

export const fanOut: Row = {
  name: "fan-out",
  area: "links",
  about: `a message of 1 KB to the maximum number of connected robots (${robotsPossible()} here); compared with the same bytes written to as many sockets`,
  run: async (rig) => {
    const robots = rig.quick ? QUICK_ROBOTS : Math.floor(robotsPossible() / CLIENTS) * CLIENTS;
    const [ours, raw] = [await rig.start("ours/gateway"), await rig.start("limits/fan-out")];
    const clients = Array.from({ length: CLIENTS }, () => fork(path.resolve(import.meta.dirname, "../clients/robots.ts")));
    try {
      const count = robots / CLIENTS;
      await order(clients, { do: "open", port: portOf(ours), count, speak: true });
      await order(clients, { do: "open", port: portOf(raw), count, speak: false });
      await sleep(1_000);
      const [a, b]: [Round[], Round[]] = [[], []];
      for (let i = 0; i <= (rig.quick ? 2 : ROUNDS); i += 1) {
        const [us, them] = [await sendToAll(ours, clients, robots), await sendToAll(raw, clients, robots)];
        if (i === 0) continue; // warms up
        a.push(us);
        b.push(them);
      }
      const [us, them] = [side(a), side(b)];
      const ratio = ratioOf(us.cpu, them.cpu);
      return [
        { part: `to ${robots} robots`, ours: us.cpu, limit: them.cpu, unit: "µs CPU", ratio, goal: "≤ 1.3", met: ratio <= 1.3 },
        {
          part: "until the last one has it, for each robot",
          ours: us.wall,
          limit: them.wall,
          unit: "µs",
          ratio: ratioOf(us.wall, them.wall),
        },
      ];
    } finally {
      for (const client of clients) client.kill("SIGKILL");
      await ours.stop();
      await raw.stop();
    }
  },
};
