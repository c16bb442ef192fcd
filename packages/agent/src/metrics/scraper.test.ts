import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { test, type TestContext } from "node:test";
import { type Clock, idleActivity, SimulatedClock, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { ScrapeAddress } from "../config-file/robot-config.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { collectSamples, droppedBy } from "../testing/collected-samples.ts";
import { LINE_CHARACTERS_MAX } from "./exposition.ts";
import { SOURCE_SERIES_MAX } from "./sample-collector.ts";
import { EXPOSITION_BYTES_MAX, OVERSIZE_PAUSE_MS, SCRAPE_TIMEOUT_MS, Scraper } from "./scraper.ts";

const LIMIT = { timeout: 120_000 };

/** Starts an HTTP server of a workload, and a scraper for it. */
async function start(t: TestContext, serve: RequestListener, { clock = systemClock, socket }: { clock?: Clock; socket?: string } = {}) {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    serve(request, response);
  });
  server.listen(socket ?? { port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const path = "/metrics?x=1";
  const address: ScrapeAddress =
    socket === undefined
      ? { instance: "app", host: "127.0.0.1", port: (server.address() as AddressInfo).port, path }
      : { instance: "app", socket, path };
  const collected = collectSamples(clock);
  const source = collected.source("app", { app: "main" });
  const scraper = new Scraper({ address, source, clock, activity: idleActivity, log: collected.log });
  t.after(() => scraper.stop());
  return { ...collected, scraper, server, requests, dropped: () => droppedBy(source) };
}

/** Writes pieces until `bytes` are sent or the client is gone; returns the number of written bytes. */
async function pour(response: ServerResponse, piece: (i: number) => string, bytes = Infinity): Promise<number> {
  let sent = 0;
  const pieces = function* (): Generator<string> {
    for (let i = 0; sent < bytes; i += 1) {
      const text = piece(i);
      sent += text.length;
      yield text;
    }
  };
  await pipeline(Readable.from(pieces()), response).catch(() => {});
  return sent;
}

const names = (series: readonly { name: string }[]): string[] => series.map(({ name }) => name);

test("collects the samples of a response with the time of the request, from a port and from a unix socket", LIMIT, async (t) => {
  const serve: RequestListener = (_, response) => {
    response.write('a{x="1"} 1\nb');
    response.end(' 2\nbroken line\nNaN_value NaN\na{x="1"} 3\n# EOF');
  };
  for (const more of [{}, { socket: join(temporaryDirectory(t), "app.sock") }]) {
    const { scraper, taken, dropped, requests } = await start(t, serve, more);
    assert.equal(scraper.is_up, undefined);
    await scraper.scrape();
    assert.equal(scraper.is_up, true);
    const series = taken();
    assert.deepEqual(
      series.map(({ name, labels, values }) => [name, labels, values]),
      [
        ["a", { app: "main", x: "1" }, [1]],
        ["b", { app: "main" }, [2]],
      ],
    );
    assert.deepEqual(series[0]?.times, series[1]?.times);
    assert.deepEqual(dropped(), { invalid: 1, value: 1, duplicate: 1 });
    assert.deepEqual(requests, ["/metrics?x=1"]);
  }
});

test("timestamps are milliseconds in the format of Prometheus and seconds in OpenMetrics", LIMIT, async (t) => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  const at = clock.now().getTime() - 60_000;
  for (const [type, text] of [
    ["text/plain; version=0.0.4", `a 1 ${at}\nb 1 ${at - 300_001}\nc 1 ${at / 1_000}\n`],
    ["application/openmetrics-text; version=1.0.0", `a 1 ${at / 1_000}\nb 1 ${at}\nc 1 1e300\n`],
  ] as const) {
    const { scraper, taken, dropped } = await start(t, (_, response) => response.setHeader("content-type", type).end(text), { clock });
    await scraper.scrape();
    assert.deepEqual(
      taken().map(({ name, times }) => [name, times]),
      [["a", [at]]],
    );
    assert.deepEqual(dropped(), { time: 2 });
  }
});

test("a response with 100,000 series adds at most those that one source may have", LIMIT, async (t) => {
  const { scraper, taken, dropped, lines } = await start(t, (_, response) => {
    void pour(response, (i) => `explosion{id="${i}"} 1\n`, 100_000 * 22);
  });
  await scraper.scrape();
  assert.equal(scraper.is_up, true);
  assert.equal(taken().length, SOURCE_SERIES_MAX.each);
  assert.ok((dropped()["series"] ?? 0) >= 90_000);
  assert.equal(lines.filter((line) => line.includes('"reason":"series"')).length, 1);
});

for (const [what, piece] of [
  ["samples", (i: number): string => `a_${i} 1\n`.repeat(1_000)],
  ["one line", (): string => "x".repeat(50_000)],
] as const)
  test(`reading an endless response of ${what} ends at ${EXPOSITION_BYTES_MAX} bytes, and pauses`, LIMIT, async (t) => {
    const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
    const sent = Promise.withResolvers<number>();
    const serve: RequestListener = (_, response) => void pour(response, piece).then(sent.resolve);
    const { scraper, taken, dropped, requests, lines } = await start(t, serve, { clock });
    await scraper.scrape();
    assert.equal(scraper.is_up, false);
    // The rest is in the buffers of both sockets.
    assert.ok((await sent.promise) < EXPOSITION_BYTES_MAX + 16 * 1024 * 1024);
    assert.equal(dropped()["size"], 1);
    assert.equal(taken().length, what === "samples" ? SOURCE_SERIES_MAX.each : 0);
    assert.ok(lines.some((line) => line.includes(`more than ${EXPOSITION_BYTES_MAX} bytes`)));
    await scraper.scrape();
    await clock.advance({ milliseconds: OVERSIZE_PAUSE_MS });
    assert.equal(requests.length, 1);
    await scraper.scrape();
    assert.equal(requests.length, 2);
  });

test("a slow response and one without an end are aborted, and what was read is kept", LIMIT, async (t) => {
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  for (const begin of ["", "a 1\n", "a 1\nb"]) {
    const { scraper, taken, requests, lines } = await start(t, (_, response) => (begin === "" ? undefined : response.write(begin)), {
      clock,
    });
    const ended = scraper.scrape();
    await until("the request", () => requests.length === 1);
    await until("the samples", () => begin === "" || taken().length === 1);
    await scraper.scrape();
    await clock.advance({ milliseconds: SCRAPE_TIMEOUT_MS });
    await ended;
    assert.equal(scraper.is_up, false);
    assert.equal(requests.length, 1, "no second request while one is under way");
    assert.match(lines.join(""), /no complete response within 5 s/);
  }
});

test("logs each change of the cause why a service cannot be read", LIMIT, async (t) => {
  let status = 500;
  const rig = await start(t, (_, response) => response.writeHead(status).end("a 1\n"));
  const { scraper, lines, server, taken } = rig;
  for (const next of [500, 404, 200, 200]) {
    status = next;
    await scraper.scrape();
    assert.equal(scraper.is_up, next === 200);
  }
  server.close();
  await scraper.scrape();
  const reasons = lines.map((line) => JSON.parse(line) as { instance?: string; reason?: string });
  assert.deepEqual(
    reasons.flatMap(({ instance, reason }) => (instance === undefined ? [] : [reason?.replace(/:\d+$/, "")])),
    ["status 500", "status 404", undefined, "connect ECONNREFUSED 127.0.0.1"],
  );
  assert.deepEqual(names(taken()), ["a"]);
});

test("long lines and binary bytes are dropped, and the samples around them are kept", LIMIT, async (t) => {
  const { scraper, taken, dropped } = await start(t, (_, response) => {
    response.write(`a 1\n${"x".repeat(LINE_CHARACTERS_MAX * 3)}\n`);
    response.end(Buffer.concat([Buffer.from([0xff, 0x00, 0xfe, 10]), Buffer.from("b 2\n")]));
  });
  await scraper.scrape();
  assert.deepEqual(names(taken()), ["a", "b"]);
  assert.deepEqual(dropped(), { invalid: 2 });
});
