import { randomBytes, randomUUID } from "node:crypto";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { fill } from "../growth/fill.ts";
import { load, type Request } from "../load.ts";
import { byTurns, goalOrLimit, ratioOf, round, type Sample, sample } from "../measure.ts";
import { type Measured, type Spent, spentByTurns } from "../postgres.ts";
import type { Program, Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";
import { insertRobots } from "../robots.ts";

const ROUNDS = 7;
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
/** Goals in microseconds of CPU time. */
const [LIST_US_MAX, ENROLL_US_MAX] = [1_600, 900];

/** A server that answers the request, ours or the limit. */
interface Answering {
  program: Program;
  request: Request;
}

/** How requests are sent: see `load`. */
interface Sending {
  rounds: number;
  duration_ms: number;
  connections?: number;
}

/** Measures the CPU time of a request in the server and in PostgreSQL, alternately of our server and of the limit. */
function spentOnRequests(rig: Rig, ours: Answering, limit: Answering, { rounds, duration_ms, connections }: Sending) {
  const measured = ({ program, request }: Answering): Measured => ({
    pid: program.pid,
    work: () => load(program.url, request, duration_ms, connections),
  });
  return withClient(rig, (client) => spentByTurns(client, rounds, measured(ours), measured(limit)));
}

/** Measures requests that are sent one after the other over a few connections. The goal is that of `goalOrLimit`. */
async function compareCpu(rig: Rig, part: string, ours: Answering, limit: Answering, goal_us: number): Promise<RowResult[]> {
  const { rounds, round_ms } = rig.quick ? QUICK : { rounds: ROUNDS, round_ms: ROUND_MS };
  const found = await spentOnRequests(rig, ours, limit, { rounds, duration_ms: round_ms });
  return cpuLines(part, goal_us, found.ours, found.limit);
}

async function withClient<T>(rig: Rig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(rig.database);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

function cpuLines(part: string, goal_us: number, found: readonly Spent[], of_limit: readonly Spent[]): RowResult[] {
  const both = (rounds: readonly Spent[]): Sample => sample(rounds.map(({ server_us, postgres_us }) => server_us + postgres_us));
  const postgres = (rounds: readonly Spent[]): Sample => sample(rounds.map(({ postgres_us }) => postgres_us));
  const ours = both(found);
  const figure = `${Math.round(ours.median)} µs`;
  const [whole, database] = [{ part: `${part}: CPU of server and PostgreSQL` }, { part: `${part}: of that PostgreSQL` }];
  const unit = "µs CPU";
  const limit = both(of_limit);
  const [ours_database, limit_database] = [postgres(found), postgres(of_limit)];
  return [
    { ...whole, ours, limit, unit, ratio: ratioOf(ours, limit), figure, ...goalOrLimit(ours, limit, goal_us, "µs") },
    { ...database, ours: ours_database, limit: limit_database, unit, ratio: ratioOf(ours_database, limit_database) },
  ];
}

export const listRobots: Row = {
  name: "list-robots",
  area: "api",
  about: "GET a list of 100 robots; compared with node:http and one prepared query",
  run: async (rig) => {
    await fill(rig, ROBOTS);
    const path = "/api/robots?limit=100";
    const request = { method: "GET", path, headers: { authorization: `Bearer ${rig.token}` } };
    const first = await compare(rig, { method: "GET", path }, 1.25);
    const limit = await rig.start("limits/http", { DATABASE: JSON.stringify(rig.database) });
    return [
      first,
      ...(await compareCpu(rig, "100 of 10,000 robots", { program: rig.server, request }, { program: limit, request }, LIST_US_MAX)),
    ];
  },
};

const AT_ONCE = 2_000;

/** Measures requests that are all sent at the same moment, each over its own new connection. */
async function measureAtOnce(rig: Rig, ours: Answering, limit: Answering, goal_us: number): Promise<RowResult[]> {
  const count = rig.quick ? 50 : AT_ONCE;
  const sending = { rounds: rig.quick ? QUICK.rounds : ROUNDS, duration_ms: 0, connections: count };
  const found = await spentOnRequests(rig, ours, limit, sending);
  const part = `${count} robots at once`;
  const untilLast = (rounds: readonly Spent[]): Sample => sample(rounds.map(({ per_second }) => (count / per_second) * 1_000));
  const [us, them] = [untilLast(found.ours), untilLast(found.limit)];
  return [
    ...cpuLines(part, goal_us, found.ours, found.limit),
    { part: `${part}: until all have the answer`, ours: us, limit: them, unit: "ms", ratio: ratioOf(us, them) },
  ];
}

export const enroll: Row = {
  name: "enroll",
  area: "api",
  about: `enrollment of new robots, 8 at a time, at a server with 10,000; and ${AT_ONCE} at once; compared with node:http and one prepared statement`,
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
    const place = { org_id: rig.org_id, site_id: site.id, fleet_id: fleet.id, key_id: data.id };
    const program = await rig.start("limits/enroll", { DATABASE: JSON.stringify(rig.database), PLACE: JSON.stringify(place) });
    const [ours, limit] = [
      { program: rig.server, request },
      { program, request },
    ];
    return [...(await compareCpu(rig, "a robot", ours, limit, ENROLL_US_MAX)), ...(await measureAtOnce(rig, ours, limit, ENROLL_US_MAX))];
  },
};

export const postSite: Row = {
  name: "post-site",
  area: "api",
  about: "POST a validated site, durable, with its audit entry; compared with node:http and one INSERT of both rows",
  run: (rig) => compare(rig, { method: "POST", path: "/api/sites", body: () => JSON.stringify({ name: `bench ${randomUUID()}` }) }, 1.45),
};
