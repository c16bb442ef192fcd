import assert from "node:assert/strict";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { pino } from "pino";
import { StubEngine } from "../../testing/stub-engine.ts";
import { ContainerLog, nanoseconds } from "./container-log.ts";

const LIMIT = { timeout: 120_000 };

function frame(line: string): Buffer {
  const text = Buffer.from(`${line}\n`);
  const header = Buffer.alloc(8);
  header[0] = 1;
  header.writeUInt32BE(text.length, 4);
  return Buffer.concat([header, text]);
}

/** Reads a container's log from an engine that serves these connections. Each line has a time and a text. */
async function read(connections: string[][], read_until: string): Promise<{ said: string[]; log: ContainerLog; since: number[] }> {
  let left = [...connections];
  await using stub = await StubEngine.start((_, response) => {
    response.writeHead(200);
    const lines = left.shift() ?? [];
    for (const line of lines) response.write(frame(line));
    if (left.length > 0) response.end();
  });
  const said: string[] = [];
  const log = new ContainerLog({
    app: "main",
    container_id: "c1",
    read_until: nanoseconds(read_until) ?? 0n,
    look_from: nanoseconds(read_until) ?? 0n,
    engine: stub.engine,
    clock: systemClock,
    log: pino({ level: "silent" }),
    logs: { write: ({ message }: { message: string }) => void said.push(message) },
    on_line: () => {},
  });
  log.start();
  const last = connections.at(-1)?.at(-1)?.split(" ")[1];
  await until("the last line", () => said.at(-1) === last && left.length === 0);
  left = [];
  await log.close();
  return { said, log, since: stub.requests.map((request) => Number(/since=([\d.]+)/.exec(request)?.[1])) };
}

test("reads each container log line once across a reconnect and a clock that was set back", LIMIT, async () => {
  const first = ["2025-05-05T10:00:00.1Z a", "2025-05-05T10:00:00.2Z b", "2025-05-05T08:00:00.1Z c", "2025-05-05T08:00:00.2Z d"];
  const { said, log, since } = await read([first, [...first.slice(0, 2), ...first.slice(3), "2025-05-05T08:00:01Z e"]], "");
  assert.deepEqual(said, ["a", "b", "c", "d", "e"]);
  assert.equal(log.read_until, nanoseconds("2025-05-05T08:00:01Z"));
  assert.equal(since[1], Number(nanoseconds("2025-05-05T08:00:00.2Z")) / 1e9);
});

test("a stored read position in the future does not delay the container log", LIMIT, async () => {
  const soon = [60_000, 61_000].map((ms) => new Date(Date.now() + ms).toISOString());
  const { said, log, since } = await read([soon.map((at, i) => `${at} ${"ab"[i]}`)], "2100-01-01T00:00:00Z");
  assert.deepEqual(said, ["a", "b"]);
  assert.equal(log.read_until, nanoseconds(soon[1] ?? ""));
  assert.ok(since.every((at) => at * 1_000 <= Date.now()));
});

test("reads container log lines with slightly out-of-order timestamps once each", LIMIT, async () => {
  const first = ["2025-05-05T10:00:00.1Z a", "2025-05-05T10:00:00.3Z b", "2025-05-05T10:00:00.2Z c"];
  const { said } = await read([first, ["2025-05-05T10:00:00.3Z b", "2025-05-05T10:00:01Z d"]], "");
  assert.deepEqual(said, ["a", "b", "c", "d"]);
});
