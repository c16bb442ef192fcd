import { type ChildProcess, fork } from "node:child_process";
import path from "node:path";
import type { RawLinks } from "../clients/raw-links.ts";
import type { Program, Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";
import { settled, type Settled } from "../settled.ts";
import { startSwarm } from "../swarm.ts";
import { sample } from "../measure.ts";

/** A process may have 20,000 open files, and a server needs some of them for other purposes than robots. */
const EARLIER = 1_000;
const EACH = 9_000;
const PROCESSES = 2;
const ROBOTS = EARLIER + EACH * PROCESSES;
const QUICK = { earlier: 100, each: 200 };

/** Returns the growth of memory in bytes per robot. The first robots are not counted. */
async function grownBy(
  program: Program,
  sizes: { earlier: number; each: number },
  open: (count: number, nth: number) => Promise<ChildProcess>,
): Promise<Settled> {
  const children: ChildProcess[] = [];
  try {
    // Connect some robots before the first measurement, so that code, pools and the young generation are not counted as memory of robots.
    children.push(await open(sizes.earlier, 0));
    const before = await settled(program);
    for (let nth = 1; nth <= PROCESSES; nth += 1) children.push(await open(sizes.each, nth));
    const after = await settled(program);
    const count = sizes.each * PROCESSES;
    return { resident: (after.resident - before.resident) / count, objects: (after.objects - before.objects) / count };
  } finally {
    for (const child of children) child.kill("SIGKILL");
  }
}

function openRaw({ url }: Program, ca: string | undefined, count: number): Promise<ChildProcess> {
  const child = fork(path.resolve(import.meta.dirname, "../clients/raw-links.ts"), { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  return new Promise((resolve, reject) => {
    child.once("message", () => resolve(child)).once("exit", (code) => reject(new Error(`the sockets' process ended with ${code}`)));
    child.send({ url, ca, count } satisfies RawLinks);
  });
}

async function measure(rig: Rig): Promise<RowResult[]> {
  const sizes = rig.quick ? QUICK : { earlier: EARLIER, each: EACH };
  const ours = await grownBy(rig.server, sizes, async (count, nth) => (await startSwarm(rig, count, nth + 1)).child);
  const raw = await rig.start("limits/sockets", {}, { collectable: true });
  const limit = await grownBy(raw, sizes, (count) => openRaw(raw, rig.certificate?.ca, count));
  await raw.stop();
  const line = (part: string, what: keyof Settled): RowResult => ({
    part,
    ours: sample([ours[what] / 1024]),
    limit: sample([limit[what] / 1024]),
    unit: "KB",
    ratio: ours[what] / limit[what],
    figure: `${((ours[what] - limit[what]) / 1024).toFixed(1)} KB over`,
  });
  return [line("resident, a robot", "resident"), line("objects and buffers of Node.js, a robot", "objects")];
}

export const connectedMemory: Row = {
  name: "connected-memory",
  area: "memory",
  only_full: true,
  about: `memory of the server for each of ${ROBOTS} robots of \`roamfleet swarm\` (the agent's own parts) that are connected and idle; compared with a server that only holds as many WebSockets`,
  server: { collectable: true },
  run: measure,
};

export const connectedMemoryTls: Row = {
  ...connectedMemory,
  name: "connected-memory-tls",
  about: "the same over TLS",
  server: { collectable: true, tls: true },
};
