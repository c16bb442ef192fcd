// Separate process: this test measures the memory of its process.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { StreamName } from "@roamfleet/protocol/paths";
import type { Client } from "@roamfleet/sdk";
import { startPlane } from "../harness/index.ts";
import { LiveRobot } from "../harness/live-robot.ts";
import { OpenStream } from "../harness/open-stream.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { STREAM_NAMES } from "../harness/stream-target.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { leastOf, type Measure, Measures } from "../processes/measure.ts";
import { ServerProcess } from "../processes/server-process.ts";

const MIB = 1024 * 1024;
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 4 * 3_600_000 }) };
const REAL_SECONDS = promiseSize({ test: 12, full: 900 });
/** Number of warm-up cycles, after which code is compiled, and caches and pools are filled. */
const WARM_CYCLES = promiseSize({ test: 2, full: 20 });
const SIMULATED_MINUTES = promiseSize({ test: 8, full: 24 * 60 });
const WARM_MINUTES = promiseSize({ test: 6, full: 60 });
const CHURN_MINUTES = promiseSize({ test: 4, full: 10 });
/** Tolerance for variation by the garbage collector and the connection pool. A leak exceeds it after hundreds of cycles. */
const HEAP_GROWTH_MAX = 6 * MIB;
const RSS_GROWTH_MAX = 64 * MIB;
const DESCRIPTOR_GROWTH_MAX = 10;

const mib = (bytes: number): string => (bytes / MIB).toFixed(1);
const shown = (name: string, start: Measure, end: Measure): string =>
  `${name} heap ${mib(start.heap)} → ${mib(end.heap)} MiB, RSS ${mib(start.rss)} → ${mib(end.rss)} MiB, descriptors ${start.descriptors} → ${end.descriptors}`;

function assertFlat(name: string, start: Measure, end: Measure): void {
  const what = shown(name, start, end);
  assert.ok(end.heap - start.heap <= HEAP_GROWTH_MAX, what);
  assert.ok(end.rss - start.rss <= RSS_GROWTH_MAX, what);
  assert.ok(end.descriptors - start.descriptors <= DESCRIPTOR_GROWTH_MAX, what);
}

/** Opens, reads and closes a viewer with its own ticket, for every stream concurrently. */
async function openAndCloseAll(open: (name: StreamName) => Promise<OpenStream>, meanwhile?: () => Promise<void>): Promise<void> {
  const streams = await Promise.all(STREAM_NAMES.map(open));
  for (const stream of streams) await stream.round(meanwhile);
  await Promise.all(streams.map((stream) => stream.end()));
}

const ticketOf = async (api: Client, robot_id: string, stream: StreamName): Promise<Record<string, string>> => ({
  ticket: (await api.createStreamTicket({ body: { robot_id, stream } })).data.ticket ?? "",
});

test("memory of server and agent does not grow when streams are opened and closed many times", LIMIT, async (t) => {
  const around = await RobotSurroundings.start(t);
  using of_server = new Measures();
  using of_agent = new Measures();
  const limits = ["--limit", "token_requests_per_minute=1000000"];
  await using server = await ServerProcess.start({ env: of_server.env, args: limits });
  const { api, token } = await server.org("Acme");
  const site_id = (await api.createSite({ body: { name: "Hall" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const key = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data.key ?? "";
  await using robot = new AgentProcess({
    url: server.address,
    key,
    name: "cart",
    args: ["--config", around.writeConfig()],
    env: of_agent.env,
  });
  const { id } = await robot.program.until("the robot", async () =>
    (await api.listRobots()).items.find(({ status }) => status === "online"),
  );
  const open = async (name: StreamName): Promise<OpenStream> =>
    OpenStream.open(server.address, name, id, around, { query: await ticketOf(api, id, name) });
  const measure = async (): Promise<[Measure, Measure]> => [await of_server.least(server.program), await of_agent.least(robot.program)];

  const watched = await Promise.all(STREAM_NAMES.map((name) => OpenStream.open(server.address, name, id, around, { query: { token } })));
  const cycle = async (): Promise<void> => {
    await Promise.all(watched.map((stream) => stream.round()));
    await openAndCloseAll(open);
  };
  for (let n = 0; n < WARM_CYCLES; n += 1) await cycle();
  const start = await measure();
  const since = performance.now();
  let cycles = 0;
  while (performance.now() - since < REAL_SECONDS * 1_000) {
    await cycle();
    cycles += 1;
  }
  const end = await measure();
  const frames = watched.find(({ name }) => name === "camera")?.count;
  await Promise.all(watched.map((stream) => stream.end()));
  assertFlat("server", start[0], end[0]);
  assertFlat("agent", start[1], end[1]);
  provePromise(
    t,
    24,
    `${REAL_SECONDS} s of all ${STREAM_NAMES.length} kinds of streams of a real robot, ${frames} pictures to one viewer, ${cycles * STREAM_NAMES.length} streams opened and ended beside: ` +
      `${shown("server", start[0], end[0])}; ${shown("agent", start[1], end[1])}`,
  );
});

/** Measures the memory of this process. */
function measureHere(): Measure {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, external, rss } = process.memoryUsage();
  return { heap: heapUsed + external, rss, descriptors: readdirSync("/proc/self/fd").length };
}

test("memory of server and agent does not grow during a simulated day of all streams", LIMIT, async (t) => {
  await using plane = await startPlane({ at: "2030-01-01T00:00:00Z", settings: { log_level: "silent" } });
  const around = await RobotSurroundings.start(t);
  const { clock } = plane;
  await using robot = await LiveRobot.start(plane, { robot: around.robot, clock, silent: true });
  const token = plane.default_org.admin_token;
  const pass = (): Promise<void> => plane.advance({ milliseconds: 250 });
  const slow: Partial<Record<StreamName, Record<string, string>>> = { camera: { fps: "0.2" } };
  const watch = (name: StreamName): Promise<OpenStream> =>
    OpenStream.open(plane.url, name, robot.id, around, { query: { token, ...slow[name] } });
  const open = async (name: StreamName): Promise<OpenStream> =>
    OpenStream.open(plane.url, name, robot.id, around, { query: await ticketOf(plane.api, robot.id, name) });
  const watched = await Promise.all(STREAM_NAMES.map(watch));
  let opened = 0;
  const minute = async (n: number): Promise<void> => {
    await plane.advance({ seconds: 55 });
    for (const stream of watched) await stream.round(pass);
    if (n % CHURN_MINUTES !== 0) return;
    await openAndCloseAll(open, pass);
    opened += STREAM_NAMES.length;
  };
  for (let n = 0; n < WARM_MINUTES; n += 1) await minute(n);
  const start = leastOf([measureHere(), measureHere(), measureHere()]);
  for (let n = 0; n < SIMULATED_MINUTES; n += 1) await minute(n);
  const end = leastOf([measureHere(), measureHere(), measureHere()]);
  await Promise.all(watched.map((stream) => stream.end()));
  // Stopping the agent waits for timers, so virtual time must advance.
  let stopped = false;
  const stopping = robot.stop().finally(() => (stopped = true));
  while (!stopped) await pass();
  await stopping;
  assertFlat("plane and agent", start, end);
  provePromise(
    t,
    24,
    `${SIMULATED_MINUTES} min on the simulated clock, all ${STREAM_NAMES.length} kinds of streams of a real agent watched each minute and ${opened} more opened and ended, in one process: ${shown("plane and agent together", start, end)}`,
  );
});
