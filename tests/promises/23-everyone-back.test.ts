import assert from "node:assert/strict";
import https from "node:https";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { cpuSeconds, Program } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { insertRobots, type SwarmState } from "../processes/swarm-state.ts";

const ROBOTS = promiseSize({ test: 400, full: 15_000 });
/** Number of swarm processes. With two, each stays far below the limit of 20,000 open files per process. */
const SWARMS = 2;
const IS_FULL = ROBOTS === 15_000;
const BACK_MS_MAX = 60_000;
const P99_MS_MAX = 500;
const READ_EVERY_MS = 20;
const WRITE_EVERY_MS = 100;
const NEWCOMER_EVERY_MS = 250;
const PATIENCE_MS = 300_000;
const POLL_MS = 250;
const LIMIT = { timeout: promiseSize({ test: 600_000, full: 2_400_000 }) };

/** Robots with the agent's link code, in separate processes. */
class Swarms implements AsyncDisposable {
  readonly programs: Program[];

  constructor(server: ServerProcess, states: readonly SwarmState[]) {
    this.programs = states.map(({ directory, robots }, i) => {
      const flags = {
        server: server.url,
        state: directory,
        robots: String(robots),
        seed: String(i + 1),
        caFile: `${server.data}/tls/ca.pem`,
      };
      return new Program("tests/processes/droppable-swarm.ts", [JSON.stringify(flags)]);
    });
  }

  get connected(): number {
    return this.programs.reduce(
      (sum, { output }) =>
        sum +
        Number(
          output
            .match(/^connected \d+$/gm)
            ?.at(-1)
            ?.split(" ")[1] ?? 0,
        ),
      0,
    );
  }

  /** Cuts every link at once. Resolves when the swarms have noticed. */
  async cut(): Promise<void> {
    for (const { child } of this.programs) child.kill("SIGUSR2");
    for (const program of this.programs) await program.until("the links to be cut", () => /^cut$/m.test(program.output));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.programs.map((program) => program.kill()));
  }
}

const allConnected = (swarms: Swarms): Promise<unknown> =>
  until(`${ROBOTS} robots to be connected`, () => swarms.connected === ROBOTS, {
    poll_ms: POLL_MS,
    deadline_ms: PATIENCE_MS,
    progress: () => swarms.connected,
    detail: () => swarms.programs.map(({ output }) => output.slice(-2_000)).join("\n"),
  });

interface Latencies {
  reads: number[];
  writes: number[];
  newcomers: number[];
  failed: string[];
}

/** Measures response times of clients until stopped. */
function measure(server: ServerProcess, api: Client, robot_id: string): { stop: () => Promise<Latencies> } {
  const latencies: Latencies = { reads: [], writes: [], newcomers: [], failed: [] };
  let stopped = false;
  let count = 0;
  const repeat = async (every_ms: number, into: number[], ask: () => Promise<unknown>): Promise<void> => {
    while (!stopped) {
      const began = performance.now();
      await ask().catch((error: unknown) => latencies.failed.push(String(error)));
      const took = performance.now() - began;
      into.push(took);
      await sleep(Math.max(0, every_ms - took));
    }
  };
  const loops = [
    repeat(READ_EVERY_MS, latencies.reads, () => api.getRobot({ params: { id: robot_id } })),
    repeat(WRITE_EVERY_MS, latencies.writes, () => api.createSite({ body: { name: `site ${process.pid} ${Date.now()} ${(count += 1)}` } })),
    repeat(NEWCOMER_EVERY_MS, latencies.newcomers, () => requestOnNewConnection(server)),
  ];
  return {
    stop: async () => {
      stopped = true;
      await Promise.all(loops);
      return latencies;
    },
  };
}

/** Sends a request on a new connection, with a TLS handshake. */
function requestOnNewConnection(server: ServerProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  https
    .get(`${server.url}/healthz`, { agent: false, ca: server.ca }, (response) => response.resume().once("end", resolve))
    .once("error", reject);
  return promise;
}

const percentile = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0;

/** Disconnects all robots, measures until all are back, and describes the result. */
async function storm(
  name: string,
  rig: { server: ServerProcess; swarms: Swarms; api: Client; robot_id: string; fleet_id: string },
  drop: () => Promise<void>,
): Promise<string> {
  const { server, swarms, api, robot_id, fleet_id } = rig;
  const isOnline = async (): Promise<boolean> => (await api.getFleet({ params: { id: fleet_id } })).data.online_count === ROBOTS;
  const dropped_at = performance.now();
  await drop();
  const cpu_before = cpuSeconds(server.program);
  const measuring = measure(server, api, robot_id);
  await allConnected(swarms);
  await until("all of them to be shown as online", isOnline, { poll_ms: POLL_MS, deadline_ms: PATIENCE_MS });
  const back_ms = performance.now() - dropped_at;
  const cpu_ms = ((cpuSeconds(server.program) - cpu_before) * 1_000) / ROBOTS;
  const { reads, writes, newcomers, failed } = await measuring.stop();
  assert.deepEqual(failed, [], "requests that failed meanwhile");
  const calls = [...reads, ...writes];
  const [p50, p99] = [percentile(calls, 0.5), percentile(calls, 0.99)];
  const figure =
    `${name}: back after ${(back_ms / 1_000).toFixed(1)} s, API p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms of ${calls.length} calls ` +
    `(new connections p99 ${percentile(newcomers, 0.99).toFixed(0)} ms), ${cpu_ms.toFixed(1)} ms of the server's CPU for each robot`;
  if (IS_FULL) {
    assert.ok(back_ms <= BACK_MS_MAX, figure);
    assert.ok(p99 < P99_MS_MAX, figure);
  }
  return figure;
}

test("all robots reconnect soon after a simultaneous disconnect, and the API responds meanwhile", LIMIT, async (t) => {
  await using server = await ServerProcess.start({
    args: ["--tls", "auto", ...["token_requests_per_minute=1000000", "token_burst=1000000"].flatMap((limit) => ["--limit", limit])],
  });
  const { api } = await server.org("Everyone");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const org_id = (await api.getOrg()).data.id;
  const sizes = Array.from({ length: SWARMS }, (_, swarm) => Math.ceil((ROBOTS - swarm) / SWARMS));
  await using swarms = new Swarms(server, await insertRobots(server, { org_id, site_id, fleet_id }, sizes));
  await allConnected(swarms);
  const robot_id = (await api.listRobots({ query: { limit: 1 } })).items[0]?.id ?? "";
  const rig = { server, swarms, api, robot_id, fleet_id };

  const figures = [
    await storm("every link cut at once", rig, () => swarms.cut()),
    await storm("the server killed and started again", rig, async () => {
      await server.program.kill();
      await server.restart();
    }),
  ];
  for (const figure of figures) t.diagnostic(figure);
  provePromise(t, 23, `${ROBOTS} robots over TLS; ${figures.join("; ")}`);
});
