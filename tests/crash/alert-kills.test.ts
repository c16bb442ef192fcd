import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import pg from "pg";
import { startReceiver } from "../../packages/server/src/features/alerts/delivery/testing/receiver.ts";
import { promiseSize } from "../harness/promise.ts";
import { ServerProcess } from "../processes/server-process.ts";
import { databaseOf } from "../promises/writes-under-fire.ts";
import { pointsOf, readFailpointLog } from "./failpoint-log.ts";

const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
const POINTS = promiseSize({ test: 4, full: 100 });
/** Fewer, because a server looks for due evaluations every 5 s only. */
const EVALUATION_POINTS = promiseSize({ test: 2, full: 100 });

test("an alert is sent once, or twice with the same id, when the server is killed around its sending", LIMIT, async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
  const log = path.join(directory, "points.log");
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
    const points = pointsOf(log, /^features\/alerts\/delivery\/.*:/);
    assert.ok(
      points.some((point) => point.endsWith(":before-commit")),
      points.join(" "),
    );
    for (const point of points.slice(0, POINTS)) {
      const before = readFailpointLog(log).length;
      await rearm(point);
      // The request fails if the server is killed before it responds.
      await api.testChannel({ params: { id } }).catch(() => {});
      await until(`the server to die at ${point}`, () => readFailpointLog(log).length > before && !server.program.running);
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

test("an incident is opened and reported once when the server is killed during an evaluation", LIMIT, async () => {
  const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
  const log = path.join(directory, "points.log");
  try {
    await using receiver = await startReceiver();
    await using server = await ServerProcess.start({ env: { ROAMFLEET_ALERT_NETWORKS: "127.0.0.0/8" }, nodes: 1 });
    const { api } = await server.org("Evaluated");
    await api.createChannel({ body: { name: "hook", kind: "webhook", url: receiver.url("/") } });
    const condition = { type: "robot_offline" as const };
    await api.createAlertRule({ body: { name: "Unreachable", condition, severity: "critical", for_seconds: 0, force: true } });
    const client = new pg.Client(await databaseOf(server));
    await client.connect();
    /** Adds a robot that went offline, at a separate site, so that its incident is a new one. */
    const loseRobot = async (name: string): Promise<string> => {
      const { id: site_id } = (await api.createSite({ body: { name } })).data;
      const { id: fleet_id } = (await api.createFleet({ body: { name, site_id } })).data;
      await client.query(
        `insert into robot (org_id, id, name, site_id, fleet_id, public_key, connected_at, created_at, updated_at)
         select org_id, $1, $1, site_id, id, convert_to($1, 'UTF8'), now(), now(), now() from fleet where id = $2`,
        [name, fleet_id],
      );
      return site_id;
    };
    /** Moves the times for which the evaluation waits to the past, and the leases of killed servers. */
    const hurry = async (): Promise<void> => {
      await client.query("update alert_evaluation set next_at = '2000-01-01'");
      await client.query("update alert_channel set leased_until = null");
      await client.query("update incident set raised_at = raised_at - interval '1 minute' where notified_at is null");
    };
    const rearm = async (spec: string): Promise<void> => {
      await server.program.kill();
      server.env = spec === "" ? {} : { ROAMFLEET_FAILPOINT: spec, ROAMFLEET_FAILPOINT_LOG: log };
      await server.restart();
    };
    const reported = (site_id: string) =>
      until(`the incident of ${site_id} to be delivered`, async () => {
        await hurry();
        return receiver.got.some(({ body }) => body.includes(site_id));
      });
    await rearm("list");
    await reported(await loseRobot("traced"));
    const points = pointsOf(log, /^features\/alerts\/(?!delivery).*:/);
    assert.ok(
      points.some((point) => point.endsWith(":before-commit")),
      points.join(" "),
    );
    for (const [i, point] of points.slice(0, EVALUATION_POINTS).entries()) {
      const before = readFailpointLog(log).length;
      const site_id = await loseRobot(`robot-${i}`);
      await rearm(point);
      await until(`the server to die at ${point}`, async () => {
        await hurry();
        return readFailpointLog(log).length > before && !server.program.running;
      });
      await rearm("");
      await reported(site_id);
    }
    const { rows } = await client.query<{ id: string; sites: number }>(
      "select d.id, count(*) over (partition by i.site_id)::int as sites from alert_delivery d join incident i on i.org_id = d.org_id and i.id = d.incident_id",
    );
    await client.end();
    assert.deepEqual(new Set(rows.map(({ sites }) => sites)), new Set([1]), "one message for each incident");
    const counts = Map.groupBy(receiver.got, ({ headers }) => String(headers["webhook-id"]));
    assert.deepEqual([...counts.keys()].toSorted(), rows.map(({ id }) => id).toSorted());
    for (const [of, got] of counts) assert.ok(got.length <= 2, `${of} was sent ${got.length} times`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
