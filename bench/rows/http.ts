import { randomBytes, randomUUID } from "node:crypto";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { fill } from "../growth/fill.ts";
import { load, type Request } from "../load.ts";
import { byTurns, round, sample } from "../measure.ts";
import { type Spent, spentInRounds } from "../postgres.ts";
import type { Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";
import { insertRobots } from "../robots.ts";

const ROUNDS = 7;
const ROUNDS_OF_CPU = 7;
const ROUND_MS = 2_000;
const QUICK = { rounds: 2, round_ms: 500 };

async function compare(rig: Rig, request: Request, goal: number): Promise<RowResult> {
  const limit = await rig.start("limits/http", { DATABASE: JSON.stringify(rig.database) });
  const with_token = { ...request, headers: { authorization: `Bearer ${rig.token}` } };
  const { rounds, round_ms } = rig.quick ? QUICK : { rounds: ROUNDS, round_ms: ROUND_MS };
  const result = await byTurns(
    rounds,
    () => round(rig.server.pid, () => load(rig.server.url, with_token, round_ms)),
    () => round(limit.pid, () => load(limit.url, with_token, round_ms)),
  );
  await limit.stop();
  const ratio = result.ratio.median;
  return {
    ours: result.ours.wall,
    limit: result.limit.wall,
    unit: "µs",
    ratio,
    goal: `≤ ${goal}`,
    met: ratio <= goal,
    ours_cpu_us: result.ours.cpu,
    limit_cpu_us: result.limit.cpu,
  };
}

export const getRobot: Row = {
  name: "get-robot",
  area: "api",
  about: "GET one robot, including token and database row; compared with node:http and one prepared query",
  run: async (rig) => {
    const [robot] = await insertRobots(rig, 1);
    return compare(rig, { method: "GET", path: `/api/robots/${robot?.id ?? ""}` }, 1.25);
  },
};

const ROBOTS = 10_000;

/** Measures the CPU time of a request in the server and in PostgreSQL together. The goal is in microseconds. */
async function measureCpu(rig: Rig, part: string, request: Request, goal: number): Promise<RowResult[]> {
  const { rounds, round_ms } = rig.quick ? QUICK : { rounds: ROUNDS_OF_CPU, round_ms: ROUND_MS };
  return cpuLines(part, goal, await spentIn(rig, rounds, () => load(rig.server.url, request, round_ms)));
}

async function spentIn(rig: Rig, rounds: number, work: () => Promise<number>): Promise<Spent[]> {
  const client = new pg.Client(rig.database);
  await client.connect();
  try {
    return await spentInRounds(rig, client, rounds, work);
  } finally {
    await client.end();
  }
}

function cpuLines(part: string, goal: number, found: readonly Spent[]): RowResult[] {
  const both = sample(found.map(({ server_us, postgres_us }) => server_us + postgres_us));
  const compared = { figure: `${Math.round(both.median)} µs`, goal: `≤ ${goal} µs`, met: both.median <= goal };
  return [
    { part: `${part}: CPU of server and PostgreSQL`, ours: both, unit: "µs CPU", ...compared },
    { part: `${part}: of that PostgreSQL`, ours: sample(found.map(({ postgres_us }) => postgres_us)), unit: "µs CPU" },
  ];
}

export const listRobots: Row = {
  name: "list-robots",
  area: "api",
  about: "GET a list of 100 robots; compared with node:http and one prepared query",
  run: async (rig) => {
    await fill(rig, ROBOTS);
    const path = "/api/robots?limit=100";
    const headers = { authorization: `Bearer ${rig.token}` };
    return [
      await compare(rig, { method: "GET", path }, 1.25),
      ...(await measureCpu(rig, "100 of 10,000 robots", { method: "GET", path, headers }, 1_600)),
    ];
  },
};

const AT_ONCE = 2_000;

/** Measures requests that are all sent at the same moment, each over its own new connection. */
async function measureAtOnce(rig: Rig, request: Request, goal: number): Promise<RowResult[]> {
  const count = rig.quick ? 50 : AT_ONCE;
  const rounds = rig.quick ? QUICK.rounds : ROUNDS_OF_CPU;
  const found = await spentIn(rig, rounds, () => load(rig.server.url, request, 0, count));
  const part = `${count} robots at once`;
  const until_last = sample(found.map(({ per_second }) => (count / per_second) * 1_000));
  return [...cpuLines(part, goal, found), { part: `${part}: until all have the answer`, ours: until_last, unit: "ms" }];
}

export const enroll: Row = {
  name: "enroll",
  area: "api",
  about: `enrollment of new robots, 8 at a time, at a server with 10,000; and ${AT_ONCE} at once`,
  run: async (rig) => {
    // For empty tables, PostgreSQL would plan to read the whole table, and keep that plan.
    await fill(rig, ROBOTS);
    await until("the server to notice that these robots are on no server", async () => {
      const { items } = await rig.api.listRobots({ query: { status: "online", limit: 1 } });
      return items.length === 0;
    });
    const { data: site } = await rig.api.createSite({ body: { name: "bench" } });
    const { data: fleet } = await rig.api.createFleet({ body: { name: "bench", site_id: site.id } });
    const { data } = await rig.api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id, max_uses: 0 } });
    // Any 32 bytes are accepted as an Ed25519 key, and robots that never connect need no private key.
    const body = (): string => JSON.stringify({ key: data.key, public_key: randomBytes(32).toString("base64") });
    const request = { method: "POST", path: "/agent/enroll", body };
    return [...(await measureCpu(rig, "a robot", request, 900)), ...(await measureAtOnce(rig, request, 900))];
  },
};

export const postSite: Row = {
  name: "post-site",
  area: "api",
  about: "POST a validated site, durable, with its audit entry; compared with node:http and one INSERT of both rows",
  run: (rig) => compare(rig, { method: "POST", path: "/api/sites", body: () => JSON.stringify({ name: `bench ${randomUUID()}` }) }, 1.45),
};
