import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Reached } from "@roamfleet/clock/failpoint";
import { until } from "@roamfleet/clock/testing";
import { encodeChunk, type Series } from "@roamfleet/protocol/link";
import pg from "pg";
import { ChunkSpool } from "../../packages/agent/src/metrics/chunk-spool.ts";
import { PrometheusProcess, SKIP_WITHOUT_PROMETHEUS } from "../../packages/server/src/features/metrics/testing/prometheus.ts";
import { seriesFrom } from "../../packages/server/src/features/metrics/testing/series-from.ts";
import { promiseSize } from "../harness/promise.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";

const OPTIONS = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }), ...SKIP_WITHOUT_PROMETHEUS };
const POINTS = promiseSize({ test: 5, full: 100 });
const MINUTE_MS = 60_000;
const OUTAGE_MINUTES = 20;

/** Points between the response of the receiver and the commit of the position. */
const isOfSending = (point: string): boolean => point.includes("sender.sendBatch");

/** A real agent whose spool has a chunk for each of `minutes`, as after an outage. */
class SpoolingRobot implements AsyncDisposable {
  readonly name: string;
  readonly sent: Series[] = [];
  readonly #agent: AgentProcess;

  constructor(url: string, key: string, name: string, { from, minutes }: { from: number; minutes: number }) {
    this.name = name;
    this.#agent = new AgentProcess({ url, key, name }, { start: false });
    const spool = new ChunkSpool({ directory: this.#directory, randomBytes, on_disk: () => {} });
    for (let minute = 0; minute < minutes; minute += 1) {
      const of_disk = { name: "disk_used_bytes", labels: { mount: "/" } };
      const series = [seriesFrom(from + minute * MINUTE_MS, 6), seriesFrom(from + minute * MINUTE_MS, 6, of_disk)];
      this.sent.push(...series);
      spool.add(encodeChunk(series));
    }
    this.#agent.restart();
  }

  get #directory(): string {
    return path.join(this.#agent.state, "metrics");
  }

  /** Whether the server has acknowledged every chunk. */
  get is_empty(): boolean {
    return readdirSync(this.#directory).length === 0;
  }

  /** All samples that the robot sent of a metric. */
  samples(metric: string): [number, number][] {
    const series = this.sent.filter(({ name }) => name === metric);
    return series.flatMap(({ times, values }) => times.map((time, i): [number, number] => [time, values[i] ?? Number.NaN]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent[Symbol.asyncDispose]();
  }
}

test(
  "Prometheus has each sample once after an outage of 20 minutes, in which the server is killed around its sending",
  OPTIONS,
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
    const log = path.join(directory, "points.log");
    const lines = (): Reached[] =>
      (existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean) : []).map((line) => JSON.parse(line));
    try {
      await using prometheus = await PrometheusProcess.start();
      const env = { ROAMFLEET_METRICS_REMOTE_WRITE_URL: prometheus.write_url };
      await using server = await ServerProcess.start({ env, nodes: 1 });
      const { api } = await server.org("Metrics");
      const { id: site_id } = (await api.createSite({ body: { name: "plant" } })).data;
      const { id: fleet_id } = (await api.createFleet({ body: { name: "carts", site_id } })).data;
      const { key } = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data;
      const queryOwn = async (text: string): Promise<unknown[]> => {
        const client = new pg.Client(await databaseOf(server));
        await client.connect();
        const { rows } = await client.query(text);
        await client.end();
        return rows;
      };
      /** Kills the server, and starts it again with a failpoint. It may reach the failpoint before it listens. */
      const rearm = async (spec: string): Promise<void> => {
        await server.program.kill();
        // The leases of the killed server expire after a minute, which the test does not wait for.
        await queryOwn("update metric_shard set leased_until = null");
        server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
        server.program = server.run();
      };
      const restart = async (spec: string): Promise<void> => {
        await rearm(spec);
        await until("the server to be ready", async () => (await fetch(`${server.url}/readyz`)).ok, { despite_errors: true });
      };
      const isSent = async () => (await queryOwn("select 1 from metric_position where queued_at is not null")).length === 0;
      const from = Date.now() - OUTAGE_MINUTES * MINUTE_MS;
      await using robots = new AsyncDisposableStack();
      const addRobot = (name: string, minutes: number): SpoolingRobot =>
        robots.use(new SpoolingRobot(server.url, key ?? "", name, { from, minutes }));

      await restart("list");
      const first = addRobot("first", 1);
      await until("the first robot's samples", async () => first.is_empty && (await isSent()));
      const traced = [...new Set(lines().map(({ point }) => point))].filter((point) => /^features\/metrics\/remote-write\/.*:/.test(point));
      const [of_sending, others_reached] = [traced.filter(isOfSending), traced.filter((point) => !isOfSending(point))];
      assert.ok(
        of_sending.some((point) => point.endsWith(":before-commit")),
        traced.join(" "),
      );
      const points = [...of_sending, ...others_reached.filter((point) => !point.includes("expireUnsent"))];

      await prometheus.kill();
      const others = ["second", "third", "fourth"].map((name) => addRobot(name, OUTAGE_MINUTES));
      await until("the robots' samples", () => others.every(({ is_empty }) => is_empty));
      await rearm("");
      await until("a failed request", () => /remote write failed and will be retried/.test(server.program.output));
      await prometheus.start();
      for (const point of points.slice(0, POINTS)) {
        const before = lines().length;
        // Repeat the newest chunks, as if the server had been killed before it stored the position: Prometheus must not have them twice.
        await queryOwn(
          "update metric_position set sent_number = greatest(0, sent_number - 1), queued_at = now(), unsent_from = now() - interval '1 hour'",
        );
        await rearm(point);
        await until(`the server to die at ${point}`, () => lines().length > before && !server.program.running);
      }
      await rearm("");
      await until("all samples", isSent);
      for (const robot of [first, ...others])
        for (const metric of ["cpu_percent", "disk_used_bytes"]) {
          const found = await prometheus.samples(`${metric}{robot="${robot.name}",job="roamfleet_robots"}`, new Date());
          assert.equal(found.length, 1, `${metric} of ${robot.name}`);
          assert.deepEqual(found[0]?.samples, robot.samples(metric));
        }
      assert.equal(others[0]?.samples("cpu_percent").length, OUTAGE_MINUTES * 6);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  },
);
