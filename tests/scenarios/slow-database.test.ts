import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import {
  CONTROL_CHANNEL,
  decodeFrame,
  FrameType,
  LINK_SUBPROTOCOL,
  LOG_CHANNEL,
  messageFrames,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import type { Client } from "@roamfleet/sdk";
import { SimulatedRobot, Swarm } from "@roamfleet/swarm/testing";
import pg from "pg";
import { WebSocket } from "ws";
import { signedHello } from "../../packages/server/src/features/testing/places.ts";
import { MemoryWatch } from "../processes/memory.ts";
import { ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000 };
const ROBOTS = 60;
const FLUSHES = 16;
const RECORDS = 100;
const MESSAGE = "x".repeat(2_000);
const LAST_SEQ = FLUSHES * RECORDS;
/** Twice the size of the messages sent during the test, because each byte of a message takes two bytes when parsed. */
const GROWTH_MAX = 300 * 1024 * 1024;
const READS = 20;

/** The log messages of every robot: the same bytes, created once. */
const FRAMES = Array.from({ length: FLUSHES }, (_, flush) => {
  const records = Array.from({ length: RECORDS }, (__, i) => ({
    seq: flush * RECORDS + i + 1,
    at: "2030-01-01T00:00:00.000Z",
    level: "info",
    source: "main",
    message: MESSAGE,
    fields: {},
  }));
  return messageFrames(LOG_CHANNEL, Buffer.from(JSON.stringify({ type: "logs", records })));
}).flat();

/** A robot that sends as fast as it can and ignores its credit. */
class Flooder {
  acked = 0;
  closed: string | undefined;
  readonly #socket: WebSocket;
  readonly #host: string;

  constructor(url: string, robot: SimulatedRobot, welcomed: () => void) {
    this.#host = new URL(url).host;
    this.#socket = new WebSocket(url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL, { perMessageDeflate: false });
    this.#socket.on("error", () => {});
    this.#socket.on("close", (code, reason) => (this.closed = `${code} ${String(reason)}`));
    this.#socket.on("message", (data: Buffer) => {
      const frame = decodeFrame(data);
      if (frame.type !== FrameType.DATA || frame.channel !== CONTROL_CHANNEL) return;
      const message = JSON.parse(Buffer.from(frame.payload).toString("utf8")) as ServerMessage;
      if (message.type === "challenge") this.#hello(robot, message.nonce);
      else if (message.type === "welcome") welcomed();
      else if (message.type === "log_ack") this.acked = message.seq;
    });
  }

  flood(): void {
    for (const frame of FRAMES) this.#socket.send(frame);
  }

  close(): void {
    this.#socket.terminate();
  }

  #hello(robot: SimulatedRobot, nonce: string): void {
    const hello = signedHello(robot.identity, robot.id, nonce, {}, this.#host);
    for (const frame of messageFrames(CONTROL_CHANNEL, Buffer.from(JSON.stringify(hello)))) this.#socket.send(frame);
  }
}

/** Enrolls robots whose keys the flooders use. */
async function enroll(server: ServerProcess, api: Client): Promise<SimulatedRobot[]> {
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id, max_uses: 0 } })).data;
  const swarm = new Swarm({ url: server.url });
  try {
    return await Promise.all(Array.from({ length: ROBOTS }, (_, i) => SimulatedRobot.enroll(swarm, { key: key ?? "", name: `cart-${i}` })));
  } finally {
    await swarm.stop();
  }
}

/** Values of a gauge, one per node. */
const gauges = ({ nodes }: ServerProcess, name: string): Promise<number[]> =>
  Promise.all(
    nodes.map(async ({ own_url }) => {
      const text = await (await fetch(`${own_url}/metrics`)).text();
      return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
    }),
  );

test("the server's memory stays bounded while the database cannot store logs, and none is lost", LIMIT, async () => {
  await using server = await ServerProcess.start({
    args: ["token_requests_per_minute=1000000", "token_burst=1000000"].flatMap((limit) => ["--limit", limit]),
  });
  const { api } = await server.org("Slow");
  const robots = await enroll(server, api);
  using memory = new MemoryWatch();
  const database = new pg.Client({ ...(await server.database()), ssl: false });
  await database.connect();
  let welcomed = 0;
  const flooders = robots.map((robot) => new Flooder(server.url, robot, () => (welcomed += 1)));
  try {
    await until("every robot to be let in", () => welcomed === ROBOTS);
    await database.query("begin; lock table log_batch in access exclusive mode");
    for (const { program } of server.nodes) memory.watch("server", program.child.pid);
    for (const flooder of flooders) flooder.flood();
    await until("robots not to be read any further", async () => (await gauges(server, "roamfleet_links_held")).some((held) => held > 0));
    for (let i = 0; i < READS; i += 1) await api.getRobot({ params: { id: robots[i]?.id ?? "" } });
    const bytes = Math.max(...(await gauges(server, "roamfleet_link_work_bytes")));
    await database.query("rollback");
    await until("every record to be acknowledged", () => flooders.every(({ acked }) => acked === LAST_SEQ), {
      progress: () => flooders.reduce((sum, { acked }) => sum + acked, 0),
      detail: () => JSON.stringify(flooders.map(({ acked, closed }) => [acked, closed])),
    });
    assert.ok(bytes < 48 * 1024 * 1024, `${bytes} bytes waited`);
    const growth = memory.growth("server");
    assert.ok(growth < GROWTH_MAX, `the server grew by ${Math.round(growth / 1024 / 1024)} MiB`);
    const { rows } = await database.query<{ robots: number; records: number; last: number; doubled: number }>(`
      select count(distinct robot_id)::int as robots, sum(record_count)::int as records, max(last_seq)::int as last,
        (count(*) - count(distinct (robot_id, first_seq)))::int as doubled from log_batch`);
    assert.deepEqual(rows, [{ robots: ROBOTS, records: ROBOTS * LAST_SEQ, last: LAST_SEQ, doubled: 0 }]);
    // An acknowledgment is sent before its message is counted as done.
    await until("no work to be left", async () => (await gauges(server, "roamfleet_link_work_bytes")).every((left) => left === 0));
  } finally {
    for (const flooder of flooders) flooder.close();
    await database.end();
  }
});
