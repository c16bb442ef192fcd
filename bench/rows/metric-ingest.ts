import { CONTROL_CHANNEL, decodeChunk, decodeFrame, encodeChunk, FrameType } from "@roamfleet/protocol/link";
import pg from "pg";
import type { WebSocket } from "ws";
import { cpuMicroseconds, ratioOf, type Sample, sample } from "../measure.ts";
import { postgresCpu } from "../postgres.ts";
import { type Program, type Rig, runLimit } from "../rig.ts";
import { concurrently, connectRobot, insertRobots, sendMessage } from "../robots.ts";
import type { Row, RowResult } from "../row.ts";

const ROBOTS = 1_000;
const QUICK_ROBOTS = 50;
const ROUNDS = 7;
const CONNECT_AT_A_TIME = 50;
const SERIES = 50;
/** Samples of a series in a chunk: ten minutes at one each 10 s. */
const SAMPLES = 60;
const RATIO_MAX = 2;
const STORED_BYTES_MAX = 3;

/** Returns a chunk of ten minutes until `until`: a third of the values is constant, a third changes in steps, a third has noise. */
function chunkUntil(until: number): string {
  const times = Array.from({ length: SAMPLES }, (_, i) => until - (SAMPLES - i) * 10_000 + Math.floor(Math.random() * 6));
  const series = Array.from({ length: SERIES }, (_, i) => {
    let value = 1_000 * i;
    const next = (): number => {
      if (i % 3 === 1) value += Math.random() < 0.1 ? 4_096 : 0;
      if (i % 3 === 2) return Math.round(Math.random() * 4_096) / 10;
      return value;
    };
    return { name: `value_${i}`, labels: {}, times, values: times.map(next) };
  });
  return encodeChunk(series).toString("base64");
}

/** Returns the samples of a chunk as lines for COPY: name, time and value. */
const rowsOf = (chunk: string): string =>
  decodeChunk(Buffer.from(chunk, "base64"))
    .flatMap(({ name, times, values }) => times.map((time, i) => `${name}\t${new Date(time).toISOString()}\t${values[i]}\n`))
    .join("");

/** Sends a chunk. Resolves when it is stored. */
function ship(socket: WebSocket, seq: number, chunk: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const onMessage = (data: Buffer): void => {
      const frame = decodeFrame(data);
      if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL) return;
      const message = JSON.parse(Buffer.from(frame.payload).toString("utf8")) as { type: string; seq: number };
      if (message.type !== "samples_ack" || message.seq !== seq) return;
      socket.off("message", onMessage).off("error", reject);
      resolve();
    };
    socket.on("message", onMessage).once("error", reject);
    sendMessage(socket, CONTROL_CHANNEL, { type: "samples", spool_id: "bench", seq, chunk });
  });
}

const BYTES = "select sum(pg_total_relation_size(inhrelid))::float8 as n from pg_inherits where inhparent = 'metric_chunk'::regclass";
const numberOf = async (client: pg.Client, text: string): Promise<number> =>
  (await client.query<{ n: number }>(text)).rows[0]?.n ?? Number.NaN;

async function measure(rig: Rig, client: pg.Client): Promise<RowResult[]> {
  const robots = rig.quick ? QUICK_ROBOTS : ROBOTS;
  const chunk = chunkUntil(Date.now());
  const limit = await rig.start("limits/log-copy", {
    DATABASE: JSON.stringify(rig.database),
    BATCHES: String(robots),
    BATCH: JSON.stringify({ type: "samples", spool_id: "bench", seq: 1, chunk }),
  });
  const rows_limit = await rig.start("limits/sample-copy", {
    DATABASE: JSON.stringify(rig.database),
    ROBOTS: String(robots),
    ROWS: rowsOf(chunk),
  });
  const links = await concurrently(await insertRobots(rig, robots), CONNECT_AT_A_TIME, (robot) =>
    connectRobot(rig.server, robot, "desired"),
  );
  const samples = robots * SERIES * SAMPLES;
  const [of_server, of_limit, of_both, of_rows]: [number[], number[], number[], number[]] = [[], [], [], []];
  /** CPU for each sample of a program, and of the program and PostgreSQL. */
  const costOf = async ({ pid }: Program, work: () => Promise<unknown>): Promise<[number, number]> => {
    const [program, postgres] = [cpuMicroseconds(pid), await postgresCpu(client)];
    await work();
    const own = (cpuMicroseconds(pid) - program) / samples;
    return [own, own + ((await postgresCpu(client)) - postgres) / samples];
  };
  const rounds = rig.quick ? 1 : ROUNDS;
  const bytes_before = await numberOf(client, BYTES);
  for (let i = 0; i <= rounds; i += 1) {
    const [server_us, both_us] = await costOf(rig.server, () => Promise.all(links.map((link) => ship(link, i + 1, chunk))));
    const [limit_us] = await costOf(limit, () => runLimit(limit));
    const [, rows_us] = await costOf(rows_limit, () => runLimit(rows_limit));
    if (i === 0) continue; // warms up
    of_server.push(server_us);
    of_both.push(both_us);
    of_limit.push(limit_us);
    of_rows.push(rows_us);
  }
  for (const link of links) link.terminate();
  await limit.stop();
  await rows_limit.stop();
  const stored = await numberOf(client, "select count(*)::float8 as n from metric_chunk");
  const sent = robots * (rounds + 1);
  if (stored !== sent) throw new Error(`${sent} chunks were acknowledged, and ${stored} are stored`);
  const bytes = ((await numberOf(client, BYTES)) - bytes_before) / (samples * (rounds + 1));
  const beside = (part: string, ours: Sample, limit_cpu: Sample) => ({
    part,
    ours,
    limit: limit_cpu,
    unit: "µs CPU",
    ratio: ratioOf(ours, limit_cpu),
  });
  const total = beside("CPU of server and PostgreSQL for a sample, beside COPY of a row for each sample", sample(of_both), sample(of_rows));
  return [
    { ...total, goal: `≤ ${RATIO_MAX}`, met: total.ratio <= RATIO_MAX },
    // No goal: this limit stores compressed bytes unread, and could store what no query can read.
    beside("CPU of the server for a sample, beside COPY of the same compressed bytes", sample(of_server), sample(of_limit)),
    {
      part: "bytes of table and indexes for a sample",
      ours: sample([bytes]),
      unit: "B",
      figure: `${bytes.toFixed(2)} B`,
      goal: `≤ ${STORED_BYTES_MAX} B`,
      met: bytes <= STORED_BYTES_MAX,
    },
  ];
}

export const metricIngest: Row = {
  name: "metric-ingest",
  area: "logs",
  about: `ten minutes of ${SERIES} series of ${ROBOTS} robots in one chunk each, stored and acknowledged; compared with JSON.parse and COPY of the same bytes, and with COPY of a row for each sample`,
  run: async (rig) => {
    const client = new pg.Client(rig.database);
    await client.connect();
    try {
      return await measure(rig, client);
    } finally {
      await client.end();
    }
  },
};
