import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { WebSocket } from "ws";
import { CONTROL_CHANNEL, LOG_CHANNEL } from "@roamfleet/protocol/link";
import { healthOf } from "../../packages/server/src/features/health/testing/health-of.ts";
import { RECORDS_PER_BATCH, recordsFrom } from "../log-records.ts";
import { ratioOf, sample } from "../measure.ts";
import { type Spent, spentByTurns } from "../postgres.ts";
import { type Program, type Rig, runLimit } from "../rig.ts";
import { concurrently, connectRobot, insertRobots, sendMessage } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";
import { ship } from "./log-ingest.ts";

const LOGGING_ROBOTS = 200;
const BATCHES_EACH = 30;
const HEALTH_ROBOTS = 2_000;
const ROUNDS = 7;
const QUICK = { rounds: 1, logging: 20, health: 100 };
const CONNECT_AT_A_TIME = 50;
const POLL_MS = 2;
const TIMEOUT_MS = 60_000;
/** Share of the highest measured rate at which batches are then sent without waiting for acknowledgments. */
const STEADY_SHARE = 0.8;
const STEADY_MS = 10_000;

/** Returns lines with the rate, and with the cost of an operation in the server and in PostgreSQL. */
function linesOf(what: string, one: string, rounds: { ours: readonly Spent[]; limit: readonly Spent[] }): RowResult[] {
  const of = (key: keyof Spent): Pick<RowResult, "ours" | "limit" | "ratio"> => {
    const ours = sample(rounds.ours.map((round) => round[key]));
    const limit = sample(rounds.limit.map((round) => round[key]));
    return { ours, limit, ratio: ratioOf(ours, limit) };
  };
  return [
    { part: `${what} taken, with PostgreSQL on the same cores`, ...of("per_second"), unit: `${what}/s`, more_is_better: true },
    { part: `CPU of the server for a ${one}`, ...of("server_us"), unit: "µs CPU" },
    { part: `CPU of PostgreSQL for a ${one}`, ...of("postgres_us"), unit: "µs CPU" },
  ];
}

/**
 * Measures the server's `work` and runs of the limit by turns, then stops the limit. `operations`: the number of operations in one run of the
 * limit.
 */
async function compare(rig: Rig, client: pg.Client, work: () => Promise<number>, limit: Program, operations: number) {
  const running = async (): Promise<number> => {
    await runLimit(limit);
    return operations;
  };
  const rounds = rig.quick ? QUICK.rounds : ROUNDS;
  const found = await spentByTurns(client, rounds, { pid: rig.server.pid, work }, { pid: limit.pid, work: running });
  await limit.stop();
  return found;
}

/** Measures the sustainable rate of logs: each robot sends its next batch when the previous one is stored, as agents do. */
async function measureLogs(rig: Rig, client: pg.Client): Promise<RowResult[]> {
  const robots = await insertRobots(rig, rig.quick ? QUICK.logging : LOGGING_ROBOTS);
  const links = await concurrently(robots, CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server, robot));
  const records_each = BATCHES_EACH * RECORDS_PER_BATCH;
  const [bytes_before, wal_before] = [await logBytes(client), await walBytes(client)];
  let next = 1;
  const shipAll = async (): Promise<number> => {
    const from = next;
    await Promise.all(links.map((link) => ship(link, from, BATCHES_EACH)));
    next += records_each;
    return links.length * records_each;
  };
  const limit = await rig.start("limits/log-copy", {
    DATABASE: JSON.stringify(rig.database),
    BATCHES: String(links.length * BATCHES_EACH),
    BATCH: JSON.stringify({ type: "logs", records: recordsFrom(1) }),
  });
  const found = await compare(rig, client, shipAll, limit, links.length * records_each);
  const records = links.length * (next - 1);
  const [bytes, wal] = [(await logBytes(client)) - bytes_before, (await walBytes(client)) - wal_before];
  const rate = sample(found.ours.map(({ per_second }) => per_second)).median * STEADY_SHARE;
  const behind = await steadily(links, next, rate, rig.quick ? 1_000 : STEADY_MS);
  for (const link of links) link.terminate();
  return [
    ...linesOf("records", "record", found),
    { part: "bytes of table and indexes for a record", ours: sample([bytes / records]), unit: "B" },
    { part: "bytes of write-ahead log for a record", ours: sample([wal / records]), unit: "B" },
    {
      part: `records not stored yet while ${Math.round(rate)} a second are sent, in ms of them: halfway, then at the end`,
      limit: sample([behind.halfway]),
      ours: sample([behind.end]),
      unit: "ms",
    },
  ];
}

/** Sends batches at a fixed rate. Returns the backlog halfway and at the end, in milliseconds of sending at that rate. */
async function steadily(
  links: readonly WebSocket[],
  from: number,
  rate: number,
  duration_ms: number,
): Promise<{ halfway: number; end: number }> {
  let [sent, stored] = [0, 0];
  const taken = links.map(() => from - 1);
  for (const [i, link] of links.entries()) {
    link.on("message", (data: Buffer) => {
      const seq = Number(/"type":"log_ack","seq":(\d+)/.exec(data.toString("latin1"))?.[1]);
      if (!(seq > (taken[i] ?? 0))) return;
      stored += seq - (taken[i] ?? 0);
      taken[i] = seq;
    });
  }
  const started = performance.now();
  const behind_ms = (): number => ((sent - stored) * 1_000) / rate;
  let halfway: number | undefined;
  const next = links.map(() => from);
  for (let turn = 0; performance.now() - started < duration_ms;) {
    const due = ((performance.now() - started) / 1_000) * rate;
    while (sent < due) {
      const i = turn % links.length;
      const [link, seq] = [links[i], next[i]];
      if (link === undefined || seq === undefined) break;
      sendMessage(link, LOG_CHANNEL, { type: "logs", records: recordsFrom(seq) });
      next[i] = seq + RECORDS_PER_BATCH;
      sent += RECORDS_PER_BATCH;
      turn += 1;
    }
    if (performance.now() - started > duration_ms / 2) halfway ??= behind_ms();
    await sleep(1);
  }
  const end = behind_ms();
  const deadline = performance.now() + TIMEOUT_MS;
  while (stored < sent && performance.now() < deadline) await sleep(POLL_MS);
  if (stored < sent) throw new Error(`${sent - stored} records were not stored in time`);
  return { halfway: halfway ?? end, end };
}

const numberOf = async (client: pg.Client, text: string): Promise<number> => Number((await client.query<{ n: string }>(text)).rows[0]?.n);
const logBytes = (client: pg.Client): Promise<number> =>
  numberOf(client, "select sum(pg_total_relation_size(inhrelid)) as n from pg_inherits where inhparent = 'log_batch'::regclass");
const walBytes = (client: pg.Client): Promise<number> => numberOf(client, "select pg_current_wal_lsn() - '0/0'::pg_lsn as n");

/** Measures health snapshots, one per robot and round. They are not acknowledged, so the table is polled. */
async function measureHealth(rig: Rig, client: pg.Client): Promise<RowResult[]> {
  const robots = await insertRobots(rig, rig.quick ? QUICK.health : HEALTH_ROBOTS);
  const links = await concurrently(robots, CONNECT_AT_A_TIME, (robot) => connectRobot(rig.server, robot, "desired"));
  const snapshot = healthOf({
    disks: [{ mount: "/", used_bytes: 12_000_000_000, total_bytes: 64_000_000_000 }],
    network: [{ name: "eth0", rx_bytes: 123_456_789, tx_bytes: 98_765_432, addresses: ["10.0.0.7"] }],
    checks: [{ name: "disk", status: "ok", message: "52 GB free" }],
    metrics: { battery_cycles: 120, motor_temperature: 41.5 },
  });
  const left =
    "select count(*)::int as n from robot where id = any($1) and not exists (select from health_snapshot h where h.org_id = robot.org_id and h.robot_id = robot.id and h.received_at >= $2)";
  const ids = robots.map(({ id }) => id);
  const sendAll = async (): Promise<number> => {
    const begun = new Date();
    for (const link of links) sendMessage(link, CONTROL_CHANNEL, { type: "health", snapshot: { ...snapshot, at: begun.toISOString() } });
    const deadline = performance.now() + TIMEOUT_MS;
    while ((await client.query<{ n: number }>({ name: "left", text: left, values: [ids, begun] })).rows[0]?.n !== 0) {
      if (performance.now() > deadline) throw new Error("snapshots were not stored in time");
      await sleep(POLL_MS * 10);
    }
    return links.length;
  };
  const limit = await rig.start("limits/health-upsert", {
    DATABASE: JSON.stringify(rig.database),
    ROBOTS: String(links.length),
    SNAPSHOT: JSON.stringify({ type: "health", snapshot }),
  });
  const found = await compare(rig, client, sendAll, limit, links.length);
  for (const link of links) link.terminate();
  return linesOf("snapshots", "snapshot", found);
}

export const ingest: Row = {
  name: "ingest",
  area: "logs",
  about: `ingestion rate of ${LOGGING_ROBOTS} robots that log in batches of ${RECORDS_PER_BATCH}, compared with JSON.parse and COPY of each batch; and of ${HEALTH_ROBOTS} that send health snapshots, compared with JSON.parse and an upsert for each 200`,
  run: async (rig) => {
    const client = new pg.Client(rig.database);
    await client.connect();
    try {
      return [...(await measureLogs(rig, client)), ...(await measureHealth(rig, client))];
    } finally {
      await client.end();
    }
  },
};
