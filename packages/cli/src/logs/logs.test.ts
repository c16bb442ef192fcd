import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import type { WebSocket } from "ws";
import { RfHome } from "../testing/run-rf.ts";
import { type Script, ScriptedPeer } from "../testing/scripted-peer.ts";
import { readTime } from "../duration.ts";

const TIMEOUT = { timeout: 120_000 };

const record = (seq: number, extra: object = {}): object => ({
  robot_id: "rob_1",
  seq,
  at: "2030-01-01T00:00:00.000Z",
  received_at: `2030-01-01T00:00:0${seq}.000Z`,
  level: "info",
  source: "nav",
  message: `record ${seq}`,
  fields: {},
  ...extra,
});

test("parses relative and absolute times", () => {
  const now = new Date("2030-01-01T12:00:00Z");
  for (const [text, time] of [
    ["10m", "2030-01-01T11:50:00.000Z"],
    ["2h", "2030-01-01T10:00:00.000Z"],
    ["3d", "2029-12-29T12:00:00.000Z"],
    ["2030-01-01T08:00:00+02:00", "2030-01-01T06:00:00.000Z"],
    ["2030-01-01", "2030-01-01T00:00:00.000Z"],
  ] as const)
    assert.equal(readTime(text)(now), time, text);
  for (const text of ["soon", "10", "5y", "1", "", "2030-13-01"]) assert.throws(() => readTime(text), /Expected a duration/, text);
});

test("rf robots logs sends its filters and follows result pages up to the limit", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const pages: Record<string, unknown> = {
    first: { items: [record(4)], next_cursor: "c1" },
    c1: { items: [], next_cursor: "c2" },
    c2: { items: [record(1), record(2)], next_cursor: "c3" },
  };
  const script: Script = ({ line }) => ({ body: pages[new URL(`http://x${line.split(" ")[1]}`).searchParams.get("cursor") ?? "first"] });
  await using service = await ScriptedPeer.start(script);
  const args = ["robots", "logs", "rob_1", "--since", "2030-01-01", "--level", "warn", "--source", "nav", "--grep", "a b", "--limit", "3"];
  const { code, stdout } = await home.run(args, { env: service.env });
  assert.equal(code, 0);
  assert.deepEqual(stdout.match(/record \d/g), ["record 1", "record 2", "record 4"]);
  assert.equal(service.lines[0], "GET /api/robots/rob_1/logs?since=2030-01-01T00%3A00%3A00.000Z&level=warn&source=nav&q=a+b&limit=3");
  assert.equal(service.lines.length, 3);
});

test("rf robots logs --export writes the file only when the export succeeds", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const body = record(1);
  await using service = await ScriptedPeer.start(({ line }) =>
    line.includes("rob_1")
      ? { body, headers: { "content-type": "application/x-ndjson" } }
      : { status: 404, body: { error: { code: "not_found", message: "no such robot" } } },
  );
  const file = join(home.directory, "day.ndjson");
  const { code, stderr } = await home.run(["robots", "logs", "rob_1", "--export", file, "--level", "error"], { env: service.env });
  assert.equal(code, 0, stderr);
  assert.deepEqual(JSON.parse(await readFile(file, "utf8")), body);
  assert.match(stderr, /^\d+ records?, \d+ B, in .*day\.ndjson/);
  assert.equal(service.lines[0], "GET /api/robots/rob_1/logs/export?level=error");
  const missing = await home.run(["robots", "logs", "rob_2", "--export", `${file}2`], { env: service.env });
  assert.equal(missing.code, 5);
  await assert.rejects(readFile(`${file}2`), /ENOENT/);
  assert.equal((await home.run(["robots", "logs", "rob_1", "--export", file, "--follow"], { env: service.env })).code, 2);
});

test("rf robots logs --follow resumes after a lost connection without repeating records", TIMEOUT, async () => {
  await using home = await RfHome.make();
  let opened = 0;
  const accept = (socket: WebSocket): void => {
    opened += 1;
    if (opened === 1) {
      socket.send(JSON.stringify(record(1)));
      socket.send(JSON.stringify({ type: "cursor", cursor: "c1" }));
      socket.send(JSON.stringify(record(2)), () => socket.terminate());
    } else if (opened === 2) {
      // The server is reachable again before its robots reconnect.
      socket.send(JSON.stringify(record(2)));
      socket.send(JSON.stringify({ type: "cursor", cursor: "c2" }));
      socket.close(4409, "agent offline");
    } else {
      for (const seq of [2, 3]) socket.send(JSON.stringify(record(seq)));
      socket.send(JSON.stringify(record(3, { source: "roamfleet", message: "7 records dropped", fields: { gap: { count: 7 } } })));
      socket.close(4404, "robot removed");
    }
  };
  await using service = await ScriptedPeer.start(() => undefined, accept);
  const { code, stdout, stderr } = await home.run(["robots", "logs", "rob_1", "--follow", "--level", "info"], { env: service.env });
  assert.equal(code, 5);
  assert.deepEqual(stdout.match(/record \d|7 records dropped/g), ["record 1", "record 2", "record 3", "7 records dropped"]);
  assert.match(stderr, /connection to the server lost; reconnecting/);
  assert.deepEqual(
    service.lines.map((text) => text.split("?")[1]),
    ["level=info&cursor=", "level=info&cursor=c1", "level=info&cursor=c2"],
  );
});

test("rf robots logs --follow resumes by time without a cursor or if the server refuses cursors", TIMEOUT, async () => {
  await using home = await RfHome.make();
  let opened = 0;
  const accept = (socket: WebSocket): void => {
    opened += 1;
    if (opened === 1) socket.send(JSON.stringify(record(1)), () => socket.terminate());
    else if (opened === 2) {
      for (const seq of [1, 2]) socket.send(JSON.stringify(record(seq)));
      socket.send(JSON.stringify({ type: "cursor", cursor: "c1" }), () => socket.terminate());
    } else if (opened === 3) {
      for (const seq of [2, 3]) socket.send(JSON.stringify(record(seq)), () => seq === 3 && socket.terminate());
    } else {
      for (const seq of [2, 3, 4]) socket.send(JSON.stringify(record(seq)));
      socket.close(4404, "robot removed");
    }
  };
  // The third connection reaches a server of an earlier version.
  const refuse = (line: string): string | undefined =>
    opened === 2 && line.includes("cursor") ? "unknown query parameter cursor" : undefined;
  await using service = await ScriptedPeer.start(() => undefined, accept, refuse);
  const { code, stdout, stderr } = await home.run(["robots", "logs", "rob_1", "--follow", "--level", "info"], { env: service.env });
  assert.equal(code, 5, stderr);
  assert.deepEqual(stdout.match(/record \d/g), ["record 1", "record 2", "record 3", "record 4"]);
  assert.deepEqual(
    service.lines.map((text) => decodeURIComponent(text.split("?")[1] ?? "")),
    [
      "level=info&cursor=",
      "level=info&after=2030-01-01T00:00:01.000Z&cursor=",
      "level=info&cursor=c1",
      "level=info&after=2030-01-01T00:00:02.000Z",
      "level=info&cursor=c1",
    ],
  );
});

test("rf robots logs --follow stops receiving records while its output is not read", TIMEOUT, async () => {
  const RECORDS = 4_000;
  await using home = await RfHome.make();
  let sent = 0;
  await using service = await ScriptedPeer.start(
    () => undefined,
    (socket) => {
      const message = "x".repeat(10_000);
      for (let seq = 1; seq <= RECORDS; seq += 1)
        socket.send(JSON.stringify(record(1, { seq, message })), () => (sent += 1) === RECORDS && socket.close(1000));
    },
  );
  let stopped: ChildProcess | undefined;
  const ended = home.run(["robots", "logs", "rob_1", "--follow"], {
    env: service.env,
    on_output: (child) => {
      if (stopped === undefined) child.stdout?.pause();
      stopped = child;
    },
  });
  await until("the first output", () => stopped !== undefined);
  // Without a limit, rf receives all 40 MB in half of this time.
  await systemClock.sleep(2_000);
  assert.ok(sent < RECORDS, `${sent} records were received`);
  stopped?.stdout?.resume();
  const { code, stdout } = await ended;
  assert.equal(code, 0);
  assert.equal(stdout.split("\n").length, RECORDS + 1);
});

test("rf fleets logs shows robot names, and robot IDs in JSON", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const items = [record(1), record(2, { robot_id: "rob_left" }), record(3, { robot_id: "rob_gone" }), record(4)];
  const script: Script = ({ line }) => {
    if (line.includes("/api/fleets/fleet_1/logs")) return { body: { items, next_cursor: null } };
    if (line.includes("/api/robots/rob_left")) return { body: { data: { id: "rob_left", name: "moved" } } };
    if (line.includes("/api/robots?")) return { body: { items: [{ id: "rob_1", name: "first", status: "online" }], next_cursor: null } };
    return { status: 404, body: { error: { code: "not_found", message: "no such robot" } } };
  };
  await using service = await ScriptedPeer.start(script);
  const shown = await home.run(["fleets", "logs", "fleet_1"], { env: service.env });
  assert.equal(shown.code, 0, shown.stderr);
  assert.deepEqual(
    shown.stdout.split("\n").map((text) => text.split("  ")[1]),
    ["first", "moved", "rob_gone", "first", undefined],
  );
  const asked = service.lines.length;
  const { stdout } = await home.run(["fleets", "logs", "fleet_1", "--json"], { env: service.env });
  assert.deepEqual((JSON.parse(stdout) as { items: unknown[] }).items, items);
  assert.equal(service.lines.length, asked + 1);
});

test("rf fleets logs --follow lists offline robots once and reports robots that come online", TIMEOUT, async () => {
  await using home = await RfHome.make();
  const script: Script = ({ line }) => {
    if (line.includes("/api/robots/rob_3")) return { body: { data: { id: "rob_3", name: "late" } } };
    if (!line.includes("/api/robots?")) return undefined;
    const robot = (id: string, name: string, status: string): object => ({ id, name, status });
    return { body: { items: [robot("rob_1", "first", "online"), robot("rob_2", "second", "offline")], next_cursor: null } };
  };
  await using service = await ScriptedPeer.start(script, (socket) => {
    const future = { received_at: "2090-01-01T00:00:00.000Z" };
    socket.send(JSON.stringify(record(1, { robot_id: "rob_2" })));
    socket.send(JSON.stringify(record(2, future)));
    socket.send(JSON.stringify(record(3, { robot_id: "rob_2", ...future })));
    socket.send(JSON.stringify(record(4, { robot_id: "rob_3", ...future })));
    socket.close(1000);
  });
  const { code, stdout, stderr } = await home.run(["fleets", "logs", "fleet_1", "--follow"], { env: service.env });
  assert.equal(code, 0, stderr);
  assert.deepEqual(
    stdout.split("\n").map((text) => text.split("  ")[1]),
    ["second", "first", "second", "late", undefined],
  );
  assert.deepEqual(stderr.trim().split("\n"), [
    "offline: second; their records appear when they come online",
    "second is online",
    "late is online",
  ]);
  assert.ok(service.lines.some((line) => line === "UPGRADE /api/fleets/fleet_1/logs/ws?cursor="));
});
