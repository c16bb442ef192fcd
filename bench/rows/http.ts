import { randomUUID } from "node:crypto";
import { load, type Request } from "../load.ts";
import { byTurns, round } from "../measure.ts";
import type { Rig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";
import { insertRobots } from "../robots.ts";

const ROUNDS = 5;
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

export const listRobots: Row = {
  name: "list-robots",
  area: "api",
  about: "GET a list of 100 robots; compared with node:http and one prepared query",
  run: async (rig) => {
    await insertRobots(rig, 100);
    return compare(rig, { method: "GET", path: "/api/robots?limit=100" }, 1.25);
  },
};

export const postSite: Row = {
  name: "post-site",
  area: "api",
  about: "POST a validated site, durable; compared with node:http and the same INSERT",
  run: (rig) => compare(rig, { method: "POST", path: "/api/sites", body: () => JSON.stringify({ name: `bench ${randomUUID()}` }) }, 1.45),
};
