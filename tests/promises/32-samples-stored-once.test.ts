import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeChunk } from "@roamfleet/protocol/link";
import { until } from "@roamfleet/clock/testing";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { type SampleOptions, simulatedValue } from "../../packages/swarm/src/samples.ts";
import { promiseSize, provePromise } from "../harness/promise.ts";
import { cpuSeconds, Program } from "../processes/process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { insertRobots, type SwarmState } from "../processes/swarm-state.ts";

const ROBOTS = promiseSize({ test: 20, full: 1_000 });
const SERIES = 50;
/** Number of samples of each series. In the full size, these are 10 minutes of samples. */
const COUNT = promiseSize({ test: 12, full: 60 });
const SAMPLES: SampleOptions = {
  series: SERIES,
  interval_seconds: promiseSize({ test: 1, full: 10 }),
  flush_seconds: promiseSize({ test: 3, full: 60 }),
};
const SAMPLES_MIN = ROBOTS * SERIES * COUNT;
/** Robots whose samples are in memory at the same time for the comparison. */
const COMPARED_AT_ONCE = 100;
const POLL_MS = 10;
/** Characters of the end of the swarm's output that contain its last line of numbers. */
const TAIL_CHARACTERS = 2_000;
const DEADLINE_MS = promiseSize({ test: 120_000, full: 900_000 });
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_500_000 }) };

/** A swarm in a separate process, which reports its samples. */
class SamplingSwarm implements AsyncDisposable {
  readonly program: Program;

  constructor(server: ServerProcess, { directory, robots }: SwarmState) {
    const flags = { server: server.url, state: directory, robots: String(robots), seed: "1", samples: SAMPLES };
    this.program = new Program("tests/processes/droppable-swarm.ts", [JSON.stringify(flags)]);
  }

  /** The last reported numbers: collected samples, waiting chunks and dropped chunks. */
  get counts(): { collected: number; waiting: number; dropped: number } {
    const last = this.program.output
      .slice(-TAIL_CHARACTERS)
      .match(/^samples \d+ \d+ \d+$/gm)
      ?.at(-1);
    const [, collected = 0, waiting = 0, dropped = 0] = last?.split(" ").map(Number) ?? [];
    return { collected, waiting, dropped };
  }

  /** Waits until `part` (0 to 1) of the samples is collected. Then waits until all robots are connected and a chunk is not acknowledged yet. */
  async sending(part: number): Promise<void> {
    await this.#until(`${part * 100}% of the samples`, () => this.counts.collected >= SAMPLES_MIN * part);
    await this.connected();
    await this.#until("a chunk on its way", () => this.counts.waiting > 0);
  }

  async connected(): Promise<void> {
    const last = (): string | undefined => this.program.output.match(/^connected \d+$/gm)?.at(-1);
    await this.#until(`${ROBOTS} robots to be connected`, () => last() === `connected ${ROBOTS}`);
  }

  /** Waits for all samples, collects no more, and waits until the server has acknowledged them. Returns their number. */
  async finish(): Promise<number> {
    await this.#until("all samples", () => this.counts.collected >= SAMPLES_MIN);
    this.program.child.kill("SIGHUP");
    await this.#until("the end of the sampling", () => this.program.output.includes("collected all"));
    await this.#until("all acknowledgements", () => this.counts.waiting === 0);
    return this.counts.collected;
  }

  async #until(what: string, look: () => boolean): Promise<void> {
    const detail = (): string => this.program.output.slice(-2_000);
    await until(what, look, { poll_ms: POLL_MS, deadline_ms: DEADLINE_MS, detail });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program.kill();
  }
}

interface Stored {
  samples: number;
  chunks: number;
  chunk_bytes: number;
  table_bytes: number;
}

/** Compares all stored samples with what the robots have measured. */
async function compare(server: ServerProcess, robot_ids: readonly string[]): Promise<Stored> {
  return withClient(await server.database(), async (client) => {
    const stored: Stored = { samples: 0, chunks: 0, chunk_bytes: 0, table_bytes: 0 };
    for (let from = 0; from < robot_ids.length; from += COMPARED_AT_ONCE) {
      const some = robot_ids.slice(from, from + COMPARED_AT_ONCE);
      const { rows } = await client.query<{ robot_id: string; chunk: Buffer }>(
        "select robot_id, chunk from metric_chunk where robot_id = any ($1)",
        [some],
      );
      for (const [i, robot_id] of some.entries()) {
        const chunks = rows.filter((row) => row.robot_id === robot_id).map(({ chunk }) => chunk);
        stored.samples += compareRobot(from + i + 1, chunks);
        stored.chunks += chunks.length;
        stored.chunk_bytes += chunks.reduce((sum, { length }) => sum + length, 0);
      }
    }
    const { rows } = await client.query<{ bytes: string }>(
      "select sum(pg_total_relation_size(inhrelid)) as bytes from pg_inherits where inhparent = 'metric_chunk'::regclass",
    );
    stored.table_bytes = Number(rows[0]?.bytes);
    return stored;
  });
}

/** Asserts that the chunks of a robot have each value of each series once. Returns the number of samples. */
function compareRobot(robot: number, chunks: readonly Buffer[]): number {
  const numbers: number[] = [];
  for (const chunk of chunks) {
    const series = decodeChunk(chunk).map(({ labels, ...rest }) => ({ number: Number(labels["series"]), ...rest }));
    const first = series.find(({ number }) => number === 0);
    assert.ok(first);
    numbers.push(...first.values);
    assert.deepEqual(
      series.map(({ number }) => number).toSorted((a, b) => a - b),
      Array.from({ length: SERIES }, (_, i) => i),
    );
    for (const { number, times, values } of series) {
      assert.deepEqual(times, first.times);
      assert.deepEqual(
        values,
        first.values.map((count) => simulatedValue(robot, number, count)),
      );
    }
  }
  const expected = Array.from({ length: numbers.length }, (_, i) => i + 1);
  const sorted = numbers.toSorted((a, b) => a - b);
  assert.deepEqual(sorted, expected, `robot ${robot}: a sample is missing or stored twice`);
  return numbers.length * SERIES;
}

test("samples survive cut links and a killed server, and each is stored once", LIMIT, async (t) => {
  await using server = await ServerProcess.start();
  const { api } = await server.org("Measured");
  const site_id = (await api.createSite({ body: { name: "Yard" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const org_id = (await api.getOrg()).data.id;
  const [state] = await insertRobots(server, { org_id, site_id, fleet_id }, [ROBOTS]);
  assert.ok(state);
  const began = performance.now();
  await using swarm = new SamplingSwarm(server, state);
  await swarm.sending(0.3);
  swarm.program.child.kill("SIGUSR2");
  await swarm.program.until("the links to be cut", () => /^cut$/m.test(swarm.program.output));
  await swarm.sending(0.6);
  let cpu_seconds = cpuSeconds(server.program);
  await server.program.kill();
  await server.restart();
  await swarm.connected();
  const collected = await swarm.finish();
  const minutes = (performance.now() - began) / 60_000;
  cpu_seconds += cpuSeconds(server.program);
  assert.equal(swarm.counts.dropped, 0);
  const { samples, chunks, chunk_bytes, table_bytes } = await compare(server, state.robot_ids);
  assert.equal(samples, collected);
  const bytes = (all: number): string => (all / samples).toFixed(2);
  provePromise(
    t,
    32,
    `${ROBOTS} robots with ${SERIES} series each, all links cut once and the server killed once while chunks were on their way: ${collected} samples collected, ` +
      `${samples} stored, 0 lost, 0 twice, in ${chunks} chunks; ${bytes(chunk_bytes)} bytes a sample, ${bytes(table_bytes)} with rows and indexes; ` +
      `${cpu_seconds.toFixed(1)} s of the server's CPU in ${minutes.toFixed(1)} min`,
  );
});
