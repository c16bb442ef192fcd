import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import https from "node:https";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@roamfleet/clock/testing";
import type { Client } from "@roamfleet/sdk";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { robotKey, type StoredRobot } from "../../packages/swarm/src/robot-file.ts";
import { Program } from "../processes/process.ts";
import { ownDatabase, ServerProcess } from "../processes/server-process.ts";

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
/** USER_HZ of proc(5): the same on every Linux that Node supports. */
const CLOCK_TICKS_PER_SECOND = 100;
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

interface SwarmState {
  directory: string;
  robots: number;
}

/** Creates robots by SQL and in the swarms: enrolling thousands is not what this test measures. */
async function makeRobots(server: ServerProcess, place: { org_id: string; site_id: string; fleet_id: string }): Promise<SwarmState[]> {
  const states: SwarmState[] = [];
  await withClient(ownDatabase(server), async (client) => {
    for (let swarm = 0; swarm < SWARMS; swarm += 1) {
      const robots = Array.from({ length: Math.ceil((ROBOTS - swarm) / SWARMS) }, (_, i) => {
        const key = randomBytes(32);
        return { number: i + 1, robot_id: `rob_${randomBytes(13).toString("hex")}`, key, public_key: robotKey(key).public_key };
      });
      const parameters = [
        place.org_id,
        robots.map(({ robot_id }) => robot_id),
        robots.map(({ public_key }) => public_key),
        place.site_id,
        place.fleet_id,
      ];
      await client.query(
        `with made as (
           insert into robot (org_id, id, name, site_id, fleet_id, public_key, created_at, updated_at)
           select $1, r.id, r.id, $4, $5, decode(r.key, 'base64'), now(), now() from unnest($2::text[], $3::text[]) as r (id, key)
           returning org_id, id, public_key)
         insert into robot_key (public_key, org_id, robot_id, created_at) select public_key, org_id, id, now() from made`,
        parameters,
      );
      const directory = path.join(server.data, `swarm-${swarm}`);
      mkdirSync(directory);
      const lines = robots.map(({ number, robot_id, key }) => {
        const kept: StoredRobot = {
          number,
          key: key.toString("base64"),
          robot_id,
          org_id: place.org_id,
          name: robot_id,
          installs: 0,
          first: {},
          apps: {},
        };
        return `${JSON.stringify(kept)}\n`;
      });
      writeFileSync(path.join(directory, "robots.jsonl"), lines.join(""));
      states.push({ directory, robots: robots.length });
    }
    // Autovacuum would do this within a minute after thousands of enrollments.
    await client.query("analyze");
  });
  return states;
}

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

/** CPU time of the server's process in seconds, without its database. */
function cpuSeconds(server: ServerProcess): number {
  const stat = readFileSync(`/proc/${server.program.child.pid}/stat`, "utf8");
  const [utime = 0, stime = 0] = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 13)
    .map(Number);
  return (utime + stime) / CLOCK_TICKS_PER_SECOND;
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
  const cpu_before = cpuSeconds(server);
  const measuring = measure(server, api, robot_id);
  await allConnected(swarms);
  await until("all of them to be shown as online", isOnline, { poll_ms: POLL_MS, deadline_ms: PATIENCE_MS });
  const back_ms = performance.now() - dropped_at;
  const cpu_ms = ((cpuSeconds(server) - cpu_before) * 1_000) / ROBOTS;
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
  await using swarms = new Swarms(server, await makeRobots(server, { org_id, site_id, fleet_id }));
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
