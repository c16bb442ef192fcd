import net from "node:net";
import { NODE_FLAGS } from "../../packages/agent/build.ts";
import { cpuMicroseconds, sample } from "../measure.ts";
import type { Program, Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";

const MIB = 1024 * 1024;
const BYTES = 256 * MIB;
const BYTES_QUICK = 128 * MIB;
const ROUNDS = 7;
const ROUNDS_QUICK = 1;
/** Number of our processes on the path: agent, server and rf. */
const PROCESSES = 3;
const GOAL = 0.6;
const block = Buffer.alloc(64 * 1024, "y");

type Direction = "from the robot" | "to the robot";

/** Downloads or uploads this many bytes over one connection; returns the seconds until all have arrived. */
function copy(port: number, direction: Direction, bytes: number): Promise<number> {
  const started = performance.now();
  return new Promise((resolve, reject) => {
    let taken = 0;
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    socket.on("error", reject);
    socket.on("data", (data) => (taken += data.length));
    socket.on("end", () => {
      socket.destroy();
      if (direction === "from the robot" && taken !== bytes) reject(new Error(`${taken} of ${bytes} bytes came`));
      else resolve((performance.now() - started) / 1_000);
    });
    if (direction === "from the robot") return void socket.write(`send ${bytes}\n`);
    socket.write(`take ${bytes}\n`);
    let left = bytes;
    const more = (): void => {
      while (left > 0) {
        left -= block.length;
        if (!socket.write(block)) return void socket.once("drain", more);
      }
    };
    more();
  });
}

async function reported<T>({ url }: Program, name: string): Promise<T> {
  const answer = (await (await fetch(url)).json()) as Record<string, T>;
  return answer[name] as T;
}

interface Ways {
  ours: number;
  relays: number;
  direct: number;
}

/**
 * Transfers the same bytes through our processes, through the same number of plain relays, and directly, in turn. Returns MB per second.
 */
async function measure(rig: Rig, ways: Ways, programs: readonly Program[], direction: Direction): Promise<RowResult[]> {
  const bytes = rig.quick ? BYTES_QUICK : BYTES;
  const speeds: Record<keyof Ways, number[]> = { ours: [], relays: [], direct: [] };
  const cpu: number[] = [];
  const rounds = rig.quick ? ROUNDS_QUICK : ROUNDS;
  for (let i = 0; i <= rounds; i += 1) {
    for (const way of ["ours", "relays", "direct"] as const) {
      const before = programs.map(({ pid }) => cpuMicroseconds(pid));
      const speed = bytes / 1e6 / (await copy(ways[way], direction, bytes));
      // The first transfer of each is warm-up.
      if (i > 0) speeds[way].push(speed);
      if (i > 0 && way === "ours")
        cpu.push(programs.reduce((sum, { pid }, n) => sum + cpuMicroseconds(pid) - (before[n] ?? 0), 0) / (bytes / 1e6));
    }
  }
  const [ours, relays, direct] = [sample(speeds.ours), sample(speeds.relays), sample(speeds.direct)];
  const ratio = ours.median / relays.median;
  return [
    {
      part: direction,
      ours,
      limit: relays,
      unit: "MB/s",
      ratio,
      goal: `≥ ${GOAL}`,
      met: ratio >= GOAL,
      more_is_better: true,
      ours_cpu_us: sample(cpu),
    },
    {
      part: `${direction}, process to process`,
      ours,
      limit: direct,
      unit: "MB/s",
      ratio: ours.median / direct.median,
      more_is_better: true,
    },
  ];
}

const tcpPortOf = (program: Program): Promise<number> => reported(program, "tcp_port");

export const portForward: Row = {
  name: "port-forward",
  area: "streams",
  about: `${BYTES / MIB} MB over one connection of rf robots forward, through rf, server and agent; compared with ${PROCESSES} plain relays on loopback`,
  run: async (rig) => {
    const { data: site } = await rig.api.createSite({ body: { name: "bench" } });
    const { data: fleet } = await rig.api.createFleet({ body: { name: "bench", site_id: site.id } });
    const { data } = await rig.api.createEnrollmentKey({
      body: { site_id: site.id, fleet_id: fleet.id, max_uses: 1, expires_in_hours: 1 },
    });
    const agent = await rig.start("ours/tunnel-agent", { SERVER: rig.server.url, ENROLL_KEY: data.key ?? "" }, { node_flags: NODE_FLAGS });
    const source = await rig.start("limits/tcp-source");
    const direct = await tcpPortOf(source);
    const ROBOT_ID = await reported<string>(agent, "robot_id");
    const rf = await rig.start("ours/tunnel-rf", { SERVER: rig.server.url, TOKEN: rig.token, ROBOT_ID, REMOTE_PORT: String(direct) });
    let relays = direct;
    const started = [agent, source, rf];
    for (let i = 0; i < PROCESSES; i += 1) {
      const relay = await rig.start("limits/tcp-relay", { TARGET_PORT: String(relays) });
      started.push(relay);
      relays = await tcpPortOf(relay);
    }
    const ways = { ours: await tcpPortOf(rf), relays, direct };
    const programs = [agent, rig.server, rf];
    const [down, ...more] = await measure(rig, ways, programs, "from the robot");
    const up = await measure(rig, ways, programs, "to the robot");
    for (const program of started) await program.stop();
    if (down === undefined) throw new Error("nothing was measured");
    const { part: _, ...row } = down;
    return [row, ...more, ...up];
  },
};
