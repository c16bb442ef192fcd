import { RECORDS_PER_BATCH, recordsFrom } from "../log-records.ts";
import { cpuMicroseconds, ratioOf, sample } from "../measure.ts";
import { concurrently, connectRobot, insertRobots } from "../robots.ts";
import { type Rig, runLimit } from "../rig.ts";
import type { Row } from "../row.ts";
import { ship } from "./log-ingest.ts";

const ROBOTS = 100;
const ROBOTS_QUICK = 10;
const BATCHES = 100;
const BATCHES_QUICK = 10;
const ROUNDS = 7;
const CONNECT_AT_A_TIME = 20;
const RATIO_MAX = 2;
/** A text that no record contains, so that a search reads all of them. */
const TEXT = "no record has this text";

/** Searches the logs of all robots to the end. Returns the number of requests, and the time of the slowest one in milliseconds. */
async function searchAll({ server, token }: Rig): Promise<{ requests: number; slowest_ms: number }> {
  let [requests, slowest_ms, cursor]: [number, number, string | null] = [0, 0, null];
  do {
    const query = new URLSearchParams({ q: TEXT, ...(cursor === null ? {} : { cursor }) });
    const start = performance.now();
    const response = await fetch(`${server.url}/api/logs?${query.toString()}`, { headers: { authorization: `Bearer ${token}` } });
    const body = (await response.json()) as { items: unknown[]; next_cursor: string | null };
    if (!response.ok || body.items.length > 0) throw new Error(`the search answered ${response.status} with ${JSON.stringify(body)}`);
    slowest_ms = Math.max(slowest_ms, performance.now() - start);
    requests += 1;
    cursor = body.next_cursor;
  } while (cursor !== null);
  return { requests, slowest_ms };
}

export const logSearch: Row = {
  name: "log-search",
  area: "logs",
  about: `a text that no record has, searched in ${BATCHES} batches of ${RECORDS_PER_BATCH} log records of each of ${ROBOTS} robots; compared with decompressing the same batches in memory and searching their text, and the slowest request with an equal share of that time`,
  run: async (rig) => {
    const [count, batches] = rig.quick ? [ROBOTS_QUICK, BATCHES_QUICK] : [ROBOTS, BATCHES];
    const limit = await rig.start("limits/log-scan", {
      BATCHES: String(batches * count),
      BATCH: JSON.stringify(recordsFrom(1)),
      TEXT,
    });
    const links = await concurrently(await insertRobots(rig, count), CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server, robot));
    await Promise.all(links.map((link) => ship(link, 1, batches)));
    for (const link of links) link.terminate();
    const records = count * batches * RECORDS_PER_BATCH;
    const [of_server, of_limit]: [number[], number[]] = [[], []];
    const [of_requests, of_shares]: [number[], number[]] = [[], []];
    for (let i = 0; i <= (rig.quick ? 1 : ROUNDS); i += 1) {
      const before = cpuMicroseconds(rig.server.pid);
      const { requests, slowest_ms } = await searchAll(rig);
      const server_us = (cpuMicroseconds(rig.server.pid) - before) / records;
      const [limit_before, start] = [cpuMicroseconds(limit.pid), performance.now()];
      await runLimit(limit);
      const limit_ms = performance.now() - start;
      if (i === 0) continue; // warms up
      of_server.push(server_us);
      of_limit.push((cpuMicroseconds(limit.pid) - limit_before) / records);
      of_requests.push(slowest_ms);
      of_shares.push(limit_ms / requests);
    }
    await limit.stop();
    const [ours, bare] = [sample(of_server), sample(of_limit)];
    const ratio = ratioOf(ours, bare);
    const [slowest, share] = [sample(of_requests), sample(of_shares)];
    return [
      { ours, limit: bare, unit: "µs CPU", ratio, goal: `≤ ${RATIO_MAX}`, met: ratio <= RATIO_MAX },
      { part: "slowest request", ours: slowest, limit: share, unit: "ms", ratio: ratioOf(slowest, share) },
    ];
  },
};
