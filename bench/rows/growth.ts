import { systemClock } from "@roamfleet/clock";
import pg from "pg";
import { connect } from "../../packages/server/src/engines/db/index.ts";
import type { Db } from "../../packages/server/src/kernel/db.ts";
import { createLog } from "../../packages/server/src/kernel/log.ts";
import { standInNode } from "../../tests/processes/stand-in-node.ts";
import { fill, type Filled } from "../growth/fill.ts";
import { type ListProbe, LISTS, WORK } from "../growth/probes.ts";
import { load } from "../load.ts";
import { atRest, sample } from "../measure.ts";
import { type Rig, withRig } from "../rig.ts";
import type { Row, RowResult } from "../row.ts";

const PAGE_ROWS = 50;
const ROUNDS = 9;
const ROUND_MS = 60;
const QUICK = { rounds: 2, round_ms: 60 };
const REPETITIONS = 10;
const RATIO_MAX = 1.5;
/** A larger ratio also meets the goal if the times of both sizes overlap and the median is at most this. */
const OVERLAPPING_MS_MAX = 20;
/** Maximum ratio of the row counts of compared pages. Pages selected by time may differ by a row or two. */
const ALIKE = 1.2;
/** Number of log pages that are read to reach the measured page. */
const LOG_PAGES = 8;

/** A server with this many robots in its database. */
interface Grown {
  rig: Rig;
  filled: Filled;
  db: Db;
}

/**
 * Starts one server for each size, all concurrently, so that they can be measured alternately. The server with the fewest robots is first.
 */
async function grown(
  rig: Rig,
  sizes: readonly number[],
  work: (all: readonly Grown[]) => Promise<void>,
  before: readonly Grown[] = [],
): Promise<void> {
  const [robots, ...rest] = sizes;
  if (robots === undefined) return await work(before);
  const started = performance.now();
  const node = await standInNode(rig.database, "node_bench");
  const filled = await fill(rig, robots);
  process.stderr.write(`  ${robots} robots after ${((performance.now() - started) / 1_000).toFixed(0)} s\n`);
  const db = await connect({ connection: rig.database, clock: systemClock, log: createLog({ level: "error" }) });
  try {
    const all = [...before, { rig, filled, db }];
    const [next] = rest;
    if (next === undefined) await work(all);
    else await withRig({ quick: rig.quick, growth: rig.growth, profile: undefined }, (more) => grown(more, rest, work, all));
  } finally {
    await db.close();
    await node[Symbol.asyncDispose]();
  }
}

interface ListPage {
  items: unknown[];
  next_cursor: string | null;
}

async function get({ rig }: Grown, path: string): Promise<ListPage> {
  const response = await fetch(`${rig.server.url}${path}`, { headers: { authorization: `Bearer ${rig.token}` } });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as ListPage;
}

const withLimit = (path: string, limit: number): string => `${path}${path.includes("?") ? "&" : "?"}limit=${limit}`;

/** Path of a page from the middle; null if the result fits into the first page. */
async function deepPath(one: Grown, probe: ListProbe): Promise<string | null> {
  const path = withLimit(probe.path(one.filled), PAGE_ROWS);
  if (probe.table === undefined) {
    let cursor: string | null = null;
    for (let i = 0; i < LOG_PAGES; i += 1) {
      const page: ListPage = await get(one, cursor === null ? path : `${path}&cursor=${cursor}`);
      if (page.next_cursor === null) return null;
      cursor = page.next_cursor;
    }
    return `${path}&cursor=${cursor ?? ""}`;
  }
  const { next_cursor } = await get(one, withLimit(probe.path(one.filled), 1));
  if (next_cursor === null) return null;
  // The cursor of the second row, bound to list and filter, with the key of a row in the middle.
  const [bound, key] = JSON.parse(Buffer.from(next_cursor, "base64url").toString("utf8")) as [string, string];
  const middle = await middleOf(one, probe.table, path.includes("sort=name"));
  const deep = key.startsWith("{") ? JSON.stringify(middle) : middle.id;
  return `${path}&cursor=${Buffer.from(JSON.stringify([bound, deep])).toString("base64url")}`;
}

async function middleOf({ rig }: Grown, table: string, by_name: boolean): Promise<{ id: string; name?: string }> {
  const client = new pg.Client(rig.database);
  await client.connect();
  try {
    const order = by_name ? `name collate "C", id` : "id";
    const { rows } = await client.query<{ id: string; name?: string }>(
      `select id ${by_name ? ", name" : ""} from ${table} order by ${order} offset (select count(*) / 2 from ${table}) limit 1`,
    );
    if (rows[0] === undefined) throw new Error(`there is nothing in ${table}`);
    return rows[0];
  } finally {
    await client.end();
  }
}

/** Microseconds for each size, per round. */
async function byTurns(all: readonly Grown[], rounds: number, once: (one: Grown, i: number) => Promise<number>): Promise<number[][]> {
  const took: number[][] = all.map(() => []);
  for (let round = 0; round <= rounds; round += 1) {
    for (const [i, one] of all.entries()) {
      const us = await once(one, i);
      if (round > 0) took[i]?.push(us); // the first warms up
    }
  }
  return took;
}

/** 10k, 1M */
const short = (robots: number): string => (robots < 1_000_000 ? `${robots / 1_000}k` : `${robots / 1_000_000}M`);

/** Compares the median time of each size with that of the smallest size. With `ms_max`, a median up to it also meets the goal. */
function resultsOf(name: string, all: readonly Grown[], took: readonly number[][], ms_max?: number): RowResult[] {
  const smallest = sample(took[0] ?? []);
  return all.slice(1).map(({ filled }, i) => {
    const these = sample(took[i + 1] ?? []);
    const ratio = these.median / smallest.median;
    const overlapping = these.min <= smallest.max;
    const bound_ms = ms_max ?? (overlapping ? OVERLAPPING_MS_MAX : 0);
    const goal = `≤ ${RATIO_MAX} or ≤ ${ms_max ?? OVERLAPPING_MS_MAX} ms${ms_max === undefined ? " if overlapping" : ""}`;
    const part = `${name}: ${short(filled.robots)} beside ${short(all[0]?.filled.robots ?? 0)}`;
    return { part, ours: these, limit: smallest, unit: "µs", ratio, goal, met: ratio <= RATIO_MAX || these.median <= bound_ms * 1_000 };
  });
}

async function measureLists(all: readonly Grown[], quick: boolean): Promise<RowResult[]> {
  const { rounds, round_ms } = quick ? QUICK : { rounds: ROUNDS, round_ms: ROUND_MS };
  const results: RowResult[] = [];
  for (const probe of LISTS) {
    const first = all.map(({ filled }) => withLimit(probe.path(filled), PAGE_ROWS));
    const rows = await Promise.all(all.map(async (one, i) => (await get(one, first[i] ?? "")).items.length));
    if (Math.max(...rows) > ALIKE * Math.min(...rows)) throw new Error(`${probe.name}: pages of ${rows.join(", ")} rows are not alike`);
    const deep = await Promise.all(all.map((one) => deepPath(one, probe)));
    const both = [
      { name: probe.name, paths: first },
      { name: `${probe.name}, deep`, paths: deep },
    ];
    for (const { name, paths } of both) {
      if (paths.some((path) => path === null)) continue;
      const took = await byTurns(all, rounds, async ({ rig }, i) => {
        const started = performance.now();
        const count = await load(
          rig.server.url,
          { method: "GET", path: paths[i] ?? "", headers: { authorization: `Bearer ${rig.token}` } },
          round_ms,
        );
        return ((performance.now() - started) * 1_000) / count;
      });
      results.push(...resultsOf(name, all, took));
    }
  }
  return results;
}

async function measureWork(all: readonly Grown[], quick: boolean): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for (const probe of WORK) {
    const repetitions = probe.prepare === undefined ? REPETITIONS : 1;
    const took = await byTurns(all, quick ? QUICK.rounds : ROUNDS, async ({ db, filled }) => {
      await probe.prepare?.(db, filled);
      const started = performance.now();
      for (let i = 0; i < repetitions; i += 1) await probe.work(db);
      return ((performance.now() - started) * 1_000) / repetitions;
    });
    results.push(...resultsOf(probe.name, all, took, probe.ms_max));
  }
  return results;
}

export const growth: Row = {
  name: "growth",
  area: "growth",
  about: `every list (pages of ${PAGE_ROWS}, the first and one in the middle) and the server's internal work, with many robots in the database; compared with few robots, each by the median of ${ROUNDS} alternating rounds. The goal is a ratio of at most ${RATIO_MAX}; a larger one is accepted up to ${OVERLAPPING_MS_MAX} ms if the rounds of both sizes overlap`,
  run: async (rig) => {
    const results: RowResult[] = [];
    await grown(rig, rig.growth, async (all) => {
      for (const { rig: one } of all) await atRest(one.server.pid);
      results.push(...(await measureLists(all, rig.quick)), ...(await measureWork(all, rig.quick)));
    });
    return results;
  },
};
