import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Reached } from "@roamfleet/clock/failpoint";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { startReceiver } from "../../packages/server/src/features/alerts/delivery/testing/receiver.ts";
import { promiseSize } from "../harness/promise.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const POINTS = promiseSize({ test: 4, full: 100 });

test("an alert is sent once, or twice with the same id, when the server is killed around its sending", LIMIT, async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
  const log = path.join(directory, "points.log");
  const lines = (): Reached[] =>
    existsSync(log)
      ? readFileSync(log, "utf8")
          .split("\n")
          .filter(Boolean)
          .map((line) => JSON.parse(line) as Reached)
      : [];
  try {
    await using receiver = await startReceiver();
    await using server = await ServerProcess.start({ env: { ROAMFLEET_ALERT_NETWORKS: "127.0.0.0/8" }, nodes: 1 });
    const { api } = await server.org("Alerts");
    const { id } = (await api.createChannel({ body: { name: "hook", kind: "webhook", url: receiver.url("/") } })).data;
    const list = async () => (await api.listDeliveries({ params: { id } })).items;
    const rearm = async (spec: string): Promise<void> => {
      await server.program.kill();
      server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
      await server.restart();
      // The lease of the killed server expires after a minute, which the test does not wait for.
      const client = new pg.Client(await databaseOf(server));
      await client.connect();
      await client.query("update alert_channel set leased_until = null");
      await client.end();
    };
    const delivered = () => until("all messages", async () => (await list()).every(({ status }) => status === "delivered"));
    await rearm("list");
    await api.testChannel({ params: { id } });
    await delivered();
    const traced = [...new Set(lines().map(({ point }) => point))].filter((point) => /^features\/alerts\/delivery\/.*:/.test(point));
    const points = [...traced.filter((point) => point.endsWith("-commit")), ...traced.filter((point) => !point.endsWith("-commit"))];
    assert.ok(
      points.some((point) => point.endsWith(":before-commit")),
      traced.join(" "),
    );
    for (const point of points.slice(0, POINTS)) {
      const before = lines().length;
      await rearm(point);
      // The server may die before it responds.
      await api.testChannel({ params: { id } }).catch(() => {});
      await until(`the server to die at ${point}`, () => lines().length > before && !server.program.running);
      await rearm("");
      await delivered();
    }
    const counts = Map.groupBy(receiver.got, ({ headers }) => String(headers["webhook-id"]));
    const ids = (await list()).map((delivery) => delivery.id).toSorted();
    assert.deepEqual([...counts.keys()].toSorted(), ids);
    for (const [of, got] of counts) assert.ok(got.length <= 2, `${of} was sent ${got.length} times`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
