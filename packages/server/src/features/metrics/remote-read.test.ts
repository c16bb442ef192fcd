import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { RobotMetrics } from "@roamfleet/protocol/routes";
import { READ_TIMEOUT_MS, selector } from "./remote-read.ts";
import { startMetricRetention } from "./index.ts";
import { PrometheusProcess, SKIP_WITHOUT_PROMETHEUS } from "./testing/prometheus.ts";
import { seriesFrom } from "./testing/series-from.ts";
import { startWritePlane } from "./testing/write-plane.ts";

const TIMEOUT = { timeout: 120_000 };
const MINUTE_MS = 60_000;
const INJECTIONS = ['cpu_percent"} or {org_id=~".+"', '"}', "a\\", "a\n", 'x",org_id=~".*', "__name__", "{}"];

type Plane = Awaited<ReturnType<typeof startWritePlane>>;

/** Calls GET /api/robots/{id}/metrics for an hour from `since`. */
async function get(it: Plane, token: string, robot_id: string, since: Date, names?: string) {
  const until = new Date(since.getTime() + 60 * MINUTE_MS);
  const period = { since: since.toISOString(), until: until.toISOString(), points: "12" };
  const query = new URLSearchParams({ ...period, ...(names !== undefined && { names }) });
  const url = `/api/robots/${robot_id}/metrics?${query.toString()}`;
  return await it.call<{ data: RobotMetrics; error: { message: string } }>("GET", url, { token });
}

test(
  "old periods are read from Prometheus, with the same values, and only of the caller's org",
  { ...TIMEOUT, ...SKIP_WITHOUT_PROMETHEUS },
  async () => {
    await using prometheus = await PrometheusProcess.start();
    const [write, read] = [prometheus.write_url, prometheus.url].map((url) => ({ url, token: undefined }));
    await using it = await startWritePlane({ write, read });
    const [mine, other] = [await it.org(), await it.org()];
    const [robot_id, foreign] = [await it.robot(mine.org_id), await it.robot(other.org_id)];
    const since = new Date(it.clock.now().getTime() - 60 * MINUTE_MS);
    const disk = { name: "disk_used_bytes", labels: { mount: 'a "b"', robot: "r2", job: "x" } };
    for (let minute = 0; minute < 50; minute += 1) {
      const from = since.getTime() + minute * MINUTE_MS;
      await it.store(mine.org_id, robot_id, [seriesFrom(from, 6), seriesFrom(from, 6, disk)]);
      // Another org's robot claims to be this one.
      const forged = { labels: { org_id: mine.org_id, robot_id, job: "roamfleet_robots" } };
      await it.store(other.org_id, foreign, [seriesFrom(from, 6, { name: "foreign" }), seriesFrom(from, 6, forged)]);
    }
    it.start();
    await it.sent();
    await it.stop();
    const before = await get(it, mine.token, robot_id, since);
    assert.equal(before.status, 200);
    assert.deepEqual(
      before.body.data.series.map(({ name, labels, mean }) => [name, labels, mean[0], mean.at(-1)]),
      [
        ["cpu_percent", {}, 2.75, null],
        ["disk_used_bytes", disk.labels, 2.75, null],
      ],
    );
    await it.clock.advance({ days: 10 });
    await (await startMetricRetention(it.plane)).stop();
    const after = await get(it, mine.token, robot_id, since);
    assert.deepEqual(after, { ...before, headers: after.headers });
    const named = await get(it, mine.token, robot_id, since, "disk_used_bytes,absent");
    assert.deepEqual(
      named.body.data.series,
      before.body.data.series.filter(({ name }) => name === "disk_used_bytes"),
    );
    for (const names of INJECTIONS) {
      const answer = await get(it, mine.token, robot_id, since, names);
      assert.deepEqual([answer.status, answer.body.data?.series], [200, []], names);
    }
    assert.equal((await get(it, mine.token, foreign, since)).status, 404);
    const foreign_answer = await get(it, other.token, foreign, since);
    assert.deepEqual(
      foreign_answer.body.data.series.map(({ name }) => name),
      ["cpu_percent", "foreign"],
    );
  },
);

/** Starts a plane that reads from a server with these responses. */
async function startWith(respond: RequestListener) {
  const forms: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      forms.push(new URLSearchParams(body));
      respond(request, response);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const it = await startWritePlane({ read: { url: `http://me:s3cret@127.0.0.1:${port}/prefix/`, token: undefined } });
  const { org_id, token } = await it.org();
  const robot_id = await it.robot(org_id);
  const old = new Date(it.clock.now().getTime() - 20 * 24 * 60 * MINUTE_MS);
  return {
    it,
    forms,
    org_id,
    robot_id,
    get: (names?: string, since = old) => get(it, token, robot_id, since, names),
    [Symbol.asyncDispose]: async () => {
      await it[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("each selector has the org and the robot, and its values are quoted", TIMEOUT, async () => {
  assert.equal(selector({ a: 'x"} or {b="\\\n' }), String.raw`{a="x\"} or {b=\"\\\n"}`);
  await using rig = await startWith((request, response) => {
    assert.match(request.url ?? "", /^\/prefix\/api\/v1\/(series|query_range)$/);
    assert.equal(request.headers.authorization, `Basic ${Buffer.from("me:s3cret").toString("base64")}`);
    response.end(
      JSON.stringify({ data: request.url?.endsWith("series") ? [{ __name__: "a" }, { __name__: 'b"} or {' }] : { result: [] } }),
    );
  });
  for (const names of [undefined, "a,b", ...INJECTIONS]) assert.equal((await rig.get(names)).status, 200);
  const selectors = rig.forms.flatMap((form) => [...`${form.get("match[]") ?? ""}${form.get("query") ?? ""}`.matchAll(/\{.*?\}/g)]);
  const ours = `job="roamfleet_robots",org_id="${rig.org_id}",robot_id="${rig.robot_id}"}`;
  for (const [text] of selectors) assert.match(text, new RegExp(`^\\{(__name__="[a-z_]+",)?${ours}$`));
  assert.equal(selectors.length, 1 + 3 + 6 + 3);
  const requests = rig.forms.length;
  assert.equal((await rig.get(undefined, rig.it.clock.now())).status, 200);
  assert.equal(rig.forms.length, requests, "the database has this period");
});

test("returns 503 without the URL if the service fails, and limits size, time and number of requests", TIMEOUT, async () => {
  let respond: RequestListener = (_, response) => response.writeHead(500).end("s3cret");
  await using rig = await startWith((...args) => respond(...args));
  const refused = async (): Promise<void> => {
    const { status, body } = await rig.get("a");
    assert.equal(status, 503);
    assert.match(body.error.message, /^metrics from before 2029-12-25T00:00:00.000Z are in another service, which did not answer; /);
  };
  await refused();
  respond = (_, response) => response.writeHead(302, { location: "/" }).end();
  await refused();
  respond = (_, response) => response.end("<html>");
  await refused();
  respond = (_, response) => response.end('{"data": 5}');
  await refused();
  respond = (_, response) => {
    const pour = (): void => {
      while (response.write("x".repeat(65_536)));
    };
    response.on("drain", pour);
    pour();
  };
  await refused();
  const sent = rig.forms.length;
  respond = () => {};
  const hanging = Array.from({ length: 8 }, refused);
  await until("eight requests", () => rig.forms.length === sent + 8);
  assert.match((await rig.get("a")).body.error.message, /^too many queries/);
  await rig.it.clock.advance({ milliseconds: READ_TIMEOUT_MS });
  await Promise.all(hanging);
});
