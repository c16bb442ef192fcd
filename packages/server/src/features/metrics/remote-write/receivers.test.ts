import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { uncompress } from "snappyjs";
import { seriesFrom } from "../testing/series-from.ts";
import { startMetricRetention } from "../index.ts";
import { startWritePlane } from "../testing/write-plane.ts";

const TIMEOUT = { timeout: 120_000 };

interface Got {
  /** The decompressed request as text: the names in it are readable. */
  text: string;
  headers: Record<string, unknown>;
}

/** Starts a receiver that records requests, and a plane with one robot that sends to it. */
async function start(respond: (got: Got, ...args: Parameters<RequestListener>) => void) {
  const got: Got[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const one = { text: Buffer.from(uncompress(Buffer.concat(chunks))).toString("latin1"), headers: request.headers };
      got.push(one);
      respond(one, request, response);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const it = await startWritePlane({ write: { url: `http://127.0.0.1:${port}/write`, token: "bearer-token" } });
  const { org_id } = await it.org();
  const robot_id = await it.robot(org_id);
  const now = it.clock.now().getTime();
  return {
    it,
    got,
    org_id,
    robot_id,
    now,
    store: (name = "cpu_percent") => it.store(org_id, robot_id, [seriesFrom(now, 1, { name })]),
    [Symbol.asyncDispose]: async () => {
      await it[Symbol.asyncDispose]();
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

test("sends the headers of remote write 1.0 and the token", TIMEOUT, async () => {
  await using rig = await start((_, __, response) => response.end());
  await rig.store();
  rig.it.start();
  await rig.it.sent();
  const { headers } = rig.got[0]!;
  assert.equal(headers["content-type"], "application/x-protobuf");
  assert.equal(headers["content-encoding"], "snappy");
  assert.equal(headers["x-prometheus-remote-write-version"], "0.1.0");
  assert.equal(headers.authorization, "Bearer bearer-token");
});

test("retries after 500, a redirect and 404 with growing intervals, and follows no redirect", TIMEOUT, async () => {
  const times: number[] = [];
  await using rig = await start((_, { url }, response) => {
    assert.equal(url, "/write");
    times.push(rig.it.clock.monotonic());
    const status = [500, 302, 404, 503, 503, 503, 503][times.length - 1] ?? 204;
    response.writeHead(status, { location: "/elsewhere" }).end("no");
  });
  await rig.store();
  rig.it.start();
  await rig.it.sent();
  const steps = times.slice(1).map((time, i) => (time - (times[i] ?? 0)) / 1_000);
  assert.equal(steps.length, 7);
  // The loop runs each 5 s, and a response ends in real time while the test advances the clock.
  for (const [i, min] of [5, 10, 20, 40, 60, 60, 60].entries())
    assert.ok((steps[i] ?? 0) >= min && (steps[i] ?? 0) <= min + 15, steps.join(" "));
  assert.equal(await rig.it.counter("failures_total"), 7);
});

test("waits as long as Retry-After requests", TIMEOUT, async () => {
  const times: number[] = [];
  await using rig = await start((_, __, response) => {
    times.push(rig.it.clock.monotonic());
    response.writeHead(times.length === 1 ? 429 : 204, { "retry-after": "300" }).end();
  });
  await rig.store();
  rig.it.start();
  await rig.it.sent();
  const [first = 0, second = 0] = times;
  assert.ok(second - first >= 300_000 && second - first <= 315_000, times.join(" "));
});

test("gives up a request to a receiver that hangs, and one with an endless response", TIMEOUT, async () => {
  await using rig = await start((_, __, response) => {
    if (rig.got.length === 1) return;
    const pour = (): void => {
      while (response.write("x".repeat(1_024)));
    };
    response.writeHead(rig.got.length === 2 ? 500 : 200).on("drain", pour);
    pour();
  });
  await rig.store();
  rig.it.start();
  await until("the first request", () => rig.got.length === 1);
  await rig.it.clock.advance({ seconds: 25 });
  assert.equal(await rig.it.counter("failures_total"), 0);
  await rig.it.clock.advance({ seconds: 5 });
  await until("the timeout", async () => (await rig.it.counter("failures_total")) === 1);
  await rig.it.sent();
  assert.equal(rig.got.length, 3);
  assert.equal(await rig.it.counter("failures_total"), 2);
});

test("sends the other chunks of a refused request, and the refused one not again", TIMEOUT, async () => {
  await using rig = await start(({ text }, _, response) => response.writeHead(text.includes("bad_name") ? 400 : 204).end("bad"));
  for (let i = 0; i < 5; i += 1) await rig.store(i === 2 ? "bad_name" : `good_${i}`);
  const other = await rig.it.robot(rig.org_id);
  await rig.it.store(rig.org_id, other, [seriesFrom(rig.now, 3)]);
  rig.it.start();
  await rig.it.sent();
  assert.deepEqual([await rig.it.counter("samples_total"), await rig.it.counter("samples_refused_total")], [7, 1]);
  const requests = rig.got.length;
  await rig.it.clock.advance({ minutes: 2 });
  assert.equal(rig.got.length, requests);
});

test("shows the backlog and its age, and counts unsent chunks that retention deletes", TIMEOUT, async () => {
  await using rig = await start((_, __, response) => response.writeHead(503).end());
  const { it } = rig;
  await rig.store();
  await rig.store("other");
  it.start();
  await it.clock.advance({ minutes: 10 });
  assert.equal(await it.counter("backlog_chunks"), 2);
  assert.ok(Math.abs((await it.counter("oldest_sample_age_seconds")) - 600) <= 60);
  await it.stop();
  await it.clock.advance({ days: 7 });
  const kept = await startMetricRetention(it.plane);
  await kept.stop();
  assert.equal(await it.counter("chunks_expired_total"), 0);
  await it.clock.advance({ days: 2 });
  const dropped = await startMetricRetention(it.plane);
  await dropped.stop();
  assert.equal(await it.counter("chunks_expired_total"), 2);
  it.start();
  await it.sent();
});

test("without a receiver, samples are not queued", TIMEOUT, async () => {
  await using it = await startWritePlane({});
  const { org_id } = await it.org();
  const robot_id = await it.robot(org_id);
  await it.store(org_id, robot_id, [seriesFrom(it.clock.now().getTime(), 1)]);
  assert.equal(await it.backlog(), 0);
});
