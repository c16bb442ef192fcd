import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { StreamName } from "@roamfleet/protocol/paths";
import { OpenStream } from "../harness/open-stream.ts";
import { promiseSize } from "../harness/promise.ts";
import { RobotSurroundings } from "../harness/robot-surroundings.ts";
import { STREAM_NAMES } from "../harness/stream-target.ts";
import { AgentProcess } from "../processes/agent-process.ts";
import { Measures } from "../processes/measure.ts";
import { ServerProcess } from "../processes/server-process.ts";

const MIB = 1024 * 1024;
const LIMIT = { timeout: promiseSize({ test: 300_000, full: 1_800_000 }) };
/** Viewers of each kind. */
const STUCK = 5;
const STUCK_SECONDS = promiseSize({ test: 2, full: 60 });
/** Maximum memory of a viewer that does not read, summed over all nodes. The kernel's buffer of its socket is not included. */
const COST_MAX = MIB;

/** Returns a function that makes a stream send as much as possible, each time it is called. */
function flood(around: RobotSurroundings, name: StreamName, big: string): (stream: OpenStream) => void {
  const begun = new Set<OpenStream>();
  const once = (stream: OpenStream, begin: () => void): void => {
    if (!begun.has(stream)) begin();
    begun.add(stream);
  };
  switch (name) {
    case "logs":
      return () => around.writeLine("x".repeat(10_000));
    case "shell":
      return (stream) => once(stream, () => stream.ws.send(Buffer.from("yes a long line of nothing in particular\r")));
    case "files":
      return (stream) => once(stream, () => stream.ws.send(JSON.stringify({ type: "read", path: big, offset: 0 })));
    case "forward":
      return ({ ws }) => {
        if (ws.bufferedAmount < MIB) ws.send(Buffer.alloc(64 * 1024));
      };
    case "camera":
    case "ros_echo":
      // These streams send continuously. Of several pending messages only the newest is kept.
      return () => {};
  }
}

const QUERY: Partial<Record<StreamName, Record<string, string>>> = {
  camera: { fps: "15", width: "640", height: "480", quality: "90" },
  ros_echo: { full: "true" },
};

test("a viewer that stops reading uses at most 1 MiB and does not slow down other viewers", LIMIT, async (t) => {
  const around = await RobotSurroundings.start(t);
  around.padding = "x".repeat(200_000);
  const big = around.writeFile("big.bin", 64 * MIB);
  using measures = new Measures();
  await using server = await ServerProcess.start({ env: measures.env });
  const { api, token } = await server.org("Acme");
  const site_id = (await api.createSite({ body: { name: "Hall" } })).data.id;
  const fleet_id = (await api.createFleet({ body: { name: "Carts", site_id } })).data.id;
  const key = (await api.createEnrollmentKey({ body: { site_id, fleet_id } })).data.key ?? "";
  await using robot = new AgentProcess({ url: server.address, key, name: "cart", args: ["--config", around.writeConfig()] });
  const { id } = await robot.program.until("the robot", async () =>
    (await api.listRobots()).items.find(({ status }) => status === "online"),
  );
  const open = (name: StreamName): Promise<OpenStream> =>
    OpenStream.open(server.address, name, id, around, { query: { token, ...QUERY[name] } });

  const heldBytes = async (): Promise<number> => {
    let bytes = 0;
    for (const { program } of server.nodes) bytes += (await measures.least(program)).heap;
    return bytes;
  };

  for (const name of STREAM_NAMES) {
    const reader = await open(name);
    await reader.round();
    const before = await heldBytes();
    const stuck = await Promise.all(Array.from({ length: STUCK }, () => open(name)));
    for (const { ws } of stuck) ws.pause();
    const more = flood(around, name, big);
    const since = performance.now();
    let rounds = 0;
    while (performance.now() - since < STUCK_SECONDS * 1_000) {
      for (const stream of stuck) more(stream);
      await reader.round();
      rounds += 1;
    }
    // Send until the kernel's buffers are full too. Before that, a viewer is not stuck.
    let cost = Infinity;
    await until(`the streams ${name} to stand still`, async () => {
      for (const stream of stuck) more(stream);
      cost = ((await heldBytes()) - before) / STUCK;
      return cost <= COST_MAX;
    }).catch(() => {});
    t.diagnostic(`${name}: ${(cost / 1024).toFixed(0)} KiB for each of ${STUCK}, ${rounds} rounds of one who reads`);
    assert.ok(cost <= COST_MAX, `${name}: ${cost} bytes each`);
    assert.ok(
      stuck.every((stream) => stream.open),
      `${name}: who is slow is not sent away`,
    );
    assert.ok(reader.skipped <= reader.repeats, `${name}: the reader lost something`);
    for (const { ws } of [...stuck, reader]) ws.terminate();
    await Promise.all([...stuck, reader].map(({ closed }) => closed));
  }
});
