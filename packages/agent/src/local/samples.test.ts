import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { test, type TestContext } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { pino } from "pino";
import { PushedSamples } from "../metrics/pushed-samples.ts";
import { SOURCE_SERIES_MAX } from "../metrics/sample-collector.ts";
import { statePaths } from "../runtime/paths.ts";
import { temporaryDirectory } from "../testing/agent-rig.ts";
import { collectSamples } from "../testing/collected-samples.ts";
import { testConfig } from "../testing/deployments-rig.ts";
import { LocalInterface } from "./local-interface.ts";
import { SAMPLES_BODY_BYTES_MAX } from "./server.ts";
import { socketIn } from "./socket-path.ts";

const LIMIT = { timeout: 120_000 };

interface Answer {
  status: number;
  data?: { accepted: number; dropped: { reason: string; samples: number; first: string }[] };
  error?: { code: string; message: string; dropped?: unknown };
}

/** Starts the local API of a robot; `is_on`: whether it collects metrics. */
async function start(t: TestContext, { is_on = true } = {}) {
  const state = temporaryDirectory(t);
  const socket = socketIn(state);
  const collected = collectSamples();
  const log = pino({ level: "silent" });
  const side = new LocalInterface({ config: testConfig(state, { local_api: { socket } }), clock: systemClock, log });
  mkdirSync(statePaths(state).configs);
  const view = { robot_id: "rob_1", name: "arm", agent_version: "1", key: "file" as const, connected: () => true, apps: () => [] };
  await side.start({ ...view, pushed: is_on ? new PushedSamples(collected.source("socket"), systemClock) : undefined });
  t.after(() => side.stop());
  const push = (body: unknown, type = "application/json"): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const call = request({ socketPath: socket, method: "POST", path: "/v1/samples", headers: { "content-type": type } }, (response) => {
        void response.toArray().then((parts) => {
          const answer = JSON.parse(parts.join("")) as Omit<Answer, "status">;
          resolve({ status: response.statusCode ?? 0, ...answer });
        }, reject);
      });
      call.once("error", reject);
      call.end(typeof body === "string" ? body : JSON.stringify(body));
    });
  return { ...collected, push, socket };
}

test("takes one sample, a list, and the text format of Prometheus", LIMIT, async (t) => {
  const { push, taken } = await start(t);
  const minute_ago = Date.now() - 60_000;
  for (const [body, type] of [
    [{ name: "a", value: 1 }],
    [[{ name: "b", value: 2.5, labels: { arm: "left" } }]],
    [{ name: "b", value: 3, labels: { arm: "right" }, time: new Date(minute_ago).toISOString() }],
    ['c{x="1"} 4\nd 5\n', "text/plain; version=0.0.4"],
    [`e 6 ${(minute_ago + 1) / 1_000}\n# EOF\n`, "application/openmetrics-text; version=1.0.0"],
  ] as const) {
    const { status, data } = await push(body, type);
    assert.equal(status, 200);
    assert.deepEqual(data?.dropped, []);
  }
  const series = taken();
  assert.deepEqual(
    series.map(({ name, labels, values }) => [name, labels, values]),
    [
      ["a", {}, [1]],
      ["b", { arm: "left" }, [2.5]],
      ["b", { arm: "right" }, [3]],
      ["c", { x: "1" }, [4]],
      ["d", {}, [5]],
      ["e", {}, [6]],
    ],
  );
  for (const i of [2, 5]) assert.ok(Math.abs((series[i]?.times[0] ?? 0) - minute_ago) < 1_000);
});

test("an invalid body is refused with the place of the error, and no sample of it is taken", LIMIT, async (t) => {
  const { push, taken } = await start(t);
  const good = { name: "a", value: 1 };
  for (const [body, message] of [
    ["a 1", /not JSON; set content-type/],
    ["", /not JSON/],
    ["null", /^the sample must be an object/],
    [[good, 1], /^samples\[1\] must be an object/],
    [[good, { ...good, unit: "V" }], /^samples\[1\] has an unknown field "unit"/],
    [[{ value: 1 }], /^samples\[0\]: name must be a string/],
    [{ name: "a" }, /value must be a number/],
    ['{"name":"a","value":NaN}', /not JSON/],
    [{ name: "a", value: null }, /value must be a number/],
    [{ ...good, labels: { x: 1 } }, /labels must be an object of strings/],
    [{ ...good, labels: [] }, /labels must be an object of strings/],
    [{ ...good, time: "yesterday" }, /time must be an RFC 3339 time/],
    [{ ...good, time: "2030-13-01T00:00:00Z" }, /time must be an RFC 3339 time/],
    [{ ...good, time: 1_700_000_000 }, /time must be an RFC 3339 time/],
  ] as const) {
    const { status, error } = await push(body);
    assert.deepEqual([status, error?.code], [400, "invalid"], JSON.stringify(body));
    assert.match(error?.message ?? "", message);
  }
  assert.deepEqual(taken(), []);
});

test("samples that exceed a bound are counted in the answer, and the others are taken", LIMIT, async (t) => {
  const { push, taken } = await start(t);
  const mixed = [
    { name: "a", value: 1 },
    { name: "a", value: 2 },
    { name: "bad.name", value: 1 },
    { name: "worse-name", value: 1 },
    { name: "old", value: 1, time: "2020-01-01T00:00:00Z" },
  ];
  const { data } = await push(mixed);
  assert.equal(data?.accepted, 1);
  assert.deepEqual(
    data.dropped.map(({ reason, samples, first }) => [reason, samples, first]),
    [
      ["duplicate", 1, "a"],
      ["name", 2, "bad.name"],
      ["time", 1, "old"],
    ],
  );
  const none = await push("x NaN\nbroken", "text/plain");
  assert.deepEqual([none.status, none.error?.code], [400, "invalid"]);
  assert.match(none.error?.message ?? "", /no sample was accepted: the value is not a finite number/);
  const many = await push(Array.from({ length: 3_000 }, (_, i) => ({ name: "many", value: i, labels: { i: String(i) } })));
  assert.equal(many.data?.accepted, SOURCE_SERIES_MAX.each - 1);
  assert.equal(taken().length, SOURCE_SERIES_MAX.each);
});

test("bodies have a bound, also without a length, and other methods are refused", LIMIT, async (t) => {
  const { push, socket, taken } = await start(t);
  const { status, error } = await push("a 1\n".repeat(SAMPLES_BODY_BYTES_MAX / 4 + 1), "text/plain");
  assert.deepEqual([status, error?.code], [413, "too_large"]);
  const client = connect(socket);
  client.on("error", () => {});
  client.write("POST /v1/samples HTTP/1.1\r\nhost: robot\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n");
  const piece = `1000\r\n${"x".repeat(0x1000)}\r\n`;
  let written = 0;
  const pour = (): void => {
    while (!client.destroyed && client.write(piece)) written += piece.length;
    client.once("drain", pour);
  };
  pour();
  const [first] = (await client.take(1).toArray()) as Buffer[];
  assert.match(String(first), /^HTTP\/1\.1 413 /);
  assert.ok(written < 16 * 1024 * 1024);
  client.destroy();
  assert.deepEqual(taken(), []);
});

test("a robot whose config disables metrics refuses samples", LIMIT, async (t) => {
  const { push } = await start(t, { is_on: false });
  const { status, error } = await push({ name: "a", value: 1 });
  assert.deepEqual([status, error?.code], [409, "disabled"]);
});
