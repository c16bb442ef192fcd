import { type ChildProcess, fork } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { CameraOrder } from "../clients/camera.ts";
import type { ViewersOrder } from "../clients/viewers.ts";
import { memoryFile } from "../memory-file.ts";
import { atRest, cpuMicroseconds, ratioOf, type Sample, sample } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import { insertRobots } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";

const VIEWERS = [200, 50, 1] as const;
const FPS = 20;
const FRAME_BYTES = 16 * 1024;
/** Size on the wire, including the header. */
const WIRE_BYTES = FRAME_BYTES + 4;
const ROUNDS = 7;
/** Measurements of the idle load, which varies less than a round. */
const IDLE_ROUNDS = 3;
/** Rounds in which one viewer does not read. */
const STUCK_ROUNDS = 3;
const FRAMES = 60;
/**
 * Size of a large frame. The kernel buffers about 6 MB for an unread socket; frames are this large so that these buffers are a small share.
 */
const LARGE_BYTES = 256 * 1024;
const LARGE_WIRE_BYTES = LARGE_BYTES + 10;
const LARGE_FRAMES = 120;
const OTHERS = 20;
const MB = 1_000_000;
const ANSWER_TIMEOUT_MS = 120_000;
const ARRIVE_TIMEOUT_MS = 20_000;

/** A process that executes orders and reports completion. */
class Client implements Disposable {
  readonly #child: ChildProcess;

  constructor(name: string) {
    this.#child = fork(path.resolve(import.meta.dirname, `../clients/${name}.ts`));
  }

  order(what: CameraOrder | ViewersOrder): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`no answer to ${what.do}`)), ANSWER_TIMEOUT_MS);
      const exit = (code: number | null): void => reject(new Error(`a client ended with ${code}`));
      this.#child.once("exit", exit);
      this.#child.once("message", (answer) => {
        clearTimeout(late);
        this.#child.off("exit", exit);
        resolve(answer);
      });
      this.#child.send(what);
    });
  }

  async bytes(): Promise<number> {
    return Number(await this.order({ do: "bytes" }));
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
  }
}

/** One of the two compared relays. */
interface Way {
  to: "robot" | "source";
  program: Program;
  view: string;
  camera: Client;
  viewers: Client;
}

/** Sends frames at a camera's rate; returns how many arrived at all viewers in total. */
async function show({ to, camera, viewers }: Way, frames: number, bytes: number, wire_bytes: number, expected: number): Promise<number> {
  const before = await viewers.bytes();
  await camera.order({ do: "send", to, frames, bytes, fps: FPS });
  const deadline = performance.now() + ARRIVE_TIMEOUT_MS;
  for (;;) {
    const arrived = Math.floor(((await viewers.bytes()) - before) / wire_bytes);
    if (arrived >= expected || performance.now() > deadline) return arrived;
    await sleep(50);
  }
}

/** What a relay used while frames were sent. */
interface Shown {
  cpu_us: number;
  took_ms: number;
  /** Number of frames that arrived at all viewers in total. */
  arrived: number;
  /** Share of the frames that arrived. */
  part: number;
}

async function showOnce(way: Way, count: number, frames: number): Promise<Shown> {
  const { pid } = way.program;
  await atRest(pid);
  const [cpu, from] = [cpuMicroseconds(pid), performance.now()];
  const arrived = await show(way, frames, FRAME_BYTES, WIRE_BYTES, count * frames);
  const [after, to] = [cpuMicroseconds(pid), performance.now()];
  if (arrived === 0) throw new Error(`of ${count * frames} frames none arrived: nothing was measured`);
  return { cpu_us: after - cpu, took_ms: to - from, arrived, part: arrived / (count * frames) };
}

/** Idle load of both relays: CPU time per millisecond for `ms` milliseconds in which nothing is sent. */
async function idleLoads({ ours, limit }: { ours: Way; limit: Way }, ms: number): Promise<{ ours: number; limit: number }> {
  const [a, b] = [ours.program.pid, limit.program.pid];
  await Promise.all([atRest(a), atRest(b)]);
  const [cpu_a, cpu_b, from] = [cpuMicroseconds(a), cpuMicroseconds(b), performance.now()];
  await sleep(ms);
  const took_ms = performance.now() - from;
  return { ours: (cpuMicroseconds(a) - cpu_a) / took_ms, limit: (cpuMicroseconds(b) - cpu_b) / took_ms };
}

/**
 * Returns the CPU time per delivered frame in each round. Subtracts the CPU time that the process would have used while idle. That is the
 * median of several measurements: a garbage collection in one of them may take more CPU time than the frames of a round.
 */
function cpuPerFrame(rounds: readonly Shown[], idle_loads: readonly number[]): Sample {
  const idle = sample(idle_loads).median;
  return sample(rounds.map(({ cpu_us, took_ms, arrived }) => (cpu_us - idle * took_ms) / arrived));
}

async function withViewers<T>(way: Way, count: number, stuck: number, work: () => Promise<T>): Promise<T> {
  await way.viewers.order({ do: "open", url: way.view, count, stuck });
  // Wait until the robot has received the request for its camera.
  await sleep(500);
  try {
    return await work();
  } finally {
    await way.viewers.order({ do: "close" });
    await atRest(way.program.pid);
  }
}

async function toViewers(ways: { ours: Way; limit: Way }, count: number, quick: boolean): Promise<RowResult> {
  const rounds: { ours: Shown; limit: Shown }[] = [];
  const idle: { ours: number; limit: number }[] = [];
  const frames = quick ? 20 : FRAMES;
  await withViewers(ways.ours, count, 0, () =>
    withViewers(ways.limit, count, 0, async () => {
      for (let i = 0; i <= (quick ? 1 : ROUNDS); i += 1) {
        if (i < IDLE_ROUNDS) idle.push(await idleLoads(ways, (frames * 1_000) / FPS));
        rounds.push({ ours: await showOnce(ways.ours, count, frames), limit: await showOnce(ways.limit, count, frames) });
      }
    }),
  );
  const counted = rounds.slice(1); // the first round is warm-up
  const of = (which: "ours" | "limit"): Sample =>
    cpuPerFrame(
      counted.map((one) => one[which]),
      idle.map((one) => one[which]),
    );
  const [ours, limit] = [of("ours"), of("limit")];
  const part = Math.min(...counted.map((one) => one.ours.part));
  const ratio = ratioOf(ours, limit);
  const goal = count === 1 ? {} : { goal: "≤ 1.2", met: ratio <= 1.2 };
  return {
    part: `to ${count} viewer${count === 1 ? "" : "s"}, ${percent(part)} of the frames`,
    ours,
    limit,
    unit: "µs CPU",
    ratio,
    ...goal,
  };
}

const percent = (part: number): string => `${Math.floor(part * 1_000) / 10} %`;

/**
 * Returns the size of a process's objects and buffers after garbage collection. Resident memory would vary by more than the allowed cost of
 * a viewer.
 */
async function settledBytes({ pid }: Program): Promise<number> {
  await atRest(pid);
  await rm(memoryFile(pid), { force: true });
  process.kill(pid, "SIGUSR2");
  const deadline = performance.now() + ANSWER_TIMEOUT_MS;
  for (;;) {
    const text = await readFile(memoryFile(pid), "utf8").catch(() => "");
    if (text !== "") return Number(text);
    if (performance.now() > deadline) throw new Error(`process ${pid} does not report its memory`);
    await sleep(50);
  }
}

/** Returns the megabytes used per viewer that does not read, and the share of frames that the other viewers received. */
async function withStuck(way: Way, quick: boolean): Promise<{ mb: number; part: number }> {
  const frames = quick ? 60 : LARGE_FRAMES;
  return withViewers(way, OTHERS, 1, async () => {
    // Send one frame before measuring, so that one-time allocations and the frame stored for later viewers are not counted as a viewer's
    // memory.
    await show(way, 1, LARGE_BYTES, LARGE_WIRE_BYTES, OTHERS);
    const before = await settledBytes(way.program);
    const arrived = await show(way, frames, LARGE_BYTES, LARGE_WIRE_BYTES, OTHERS * frames);
    return { mb: ((await settledBytes(way.program)) - before) / MB, part: arrived / (OTHERS * frames) };
  });
}

async function stuckLines({ ours, limit }: { ours: Way; limit: Way }, quick: boolean): Promise<RowResult[]> {
  const [us, them]: [{ mb: number; part: number }[], { mb: number; part: number }[]] = [[], []];
  for (let i = 0; i < (quick ? 1 : STUCK_ROUNDS); i += 1) {
    us.push(await withStuck(ours, quick));
    them.push(await withStuck(limit, quick));
  }
  const memory = (rounds: typeof us): Sample => sample(rounds.map(({ mb }) => Math.max(0, mb)));
  const shares = (rounds: typeof us): Sample => sample(rounds.map(({ part }) => part * 100));
  const [our_memory, our_shares] = [memory(us), shares(us)];
  return [
    {
      part: `memory of a viewer that does not read, in MB, after ${quick ? 60 : LARGE_FRAMES} frames of 256 KiB`,
      ours: our_memory,
      limit: memory(them),
      unit: "MB",
      figure: our_memory.max.toFixed(2),
      goal: "≤ 1 MB",
      met: our_memory.max <= 1,
    },
    {
      part: `frames of ${OTHERS} others meanwhile`,
      ours: our_shares,
      limit: shares(them),
      unit: "%",
      more_is_better: true,
      figure: percent(our_shares.min / 100),
      goal: "100 %",
      met: our_shares.min >= 100,
    },
  ];
}

async function waysOf(rig: Rig, clients: Client[]): Promise<{ ours: Way; limit: Way }> {
  const [robot] = await insertRobots(rig, 1);
  const relay = await rig.start("limits/camera-relay", {}, { collectable: true });
  const [camera, viewers, viewers_of_relay] = [new Client("camera"), new Client("viewers"), new Client("viewers")];
  clients.push(camera, viewers, viewers_of_relay);
  const private_key = robot!.private_key.export({ type: "pkcs8", format: "pem" }).toString();
  await camera.order({ do: "robot", url: rig.server.url, robot_id: robot!.id, private_key });
  await camera.order({ do: "source", url: relay.url });
  const view = `${rig.server.url}/api/robots/${robot!.id}/camera/ws?token=${rig.token}`;
  return {
    ours: { to: "robot", program: rig.server, view, camera, viewers },
    limit: { to: "source", program: relay, view: `${relay.url}/view`, camera, viewers: viewers_of_relay },
  };
}

export const camera: Row = {
  name: "camera",
  area: "streams",
  about: `frames of 16 KB at ${FPS} a second from one robot to its viewers, per frame and viewer; compared with a relay that forwards all data`,
  server: { collectable: true },
  run: async (rig) => {
    const clients: Client[] = [];
    try {
      const ways = await waysOf(rig, clients);
      const lines: RowResult[] = [];
      for (const count of VIEWERS) lines.push(await toViewers(ways, count, rig.quick));
      return [...lines, ...(await stuckLines(ways, rig.quick))];
    } finally {
      for (const client of clients) client[Symbol.dispose]();
    }
  },
};
