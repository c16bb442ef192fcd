import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { freePort } from "@roamfleet/clock/testing/free-port";
import { ServerProcess } from "../processes/server-process.ts";
import { startPlane } from "./index.ts";

const TIMEOUT = { timeout: 180_000 };

/** Fails if the system could assign this port to another process, or to another test, while nothing listens on it. */
async function assertKept(url: string): Promise<void> {
  const port = Number(new URL(url).port);
  const [lowest_given] = readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s/);
  assert.ok(port < Number(lowest_given), `the system may assign port ${port} to any process`);
  await assert.rejects(freePort("127.0.0.1", { from: port, to: port + 1 }), /no port from/);
}

test("a stopped test server keeps its port reserved and restarts at the same address", TIMEOUT, async () => {
  await using plane = await startPlane();
  const urls = plane.nodes.map(({ url }) => url);
  await plane.stop();
  for (const url of urls) await assertKept(url);
  await plane.restart();
  assert.deepEqual(
    plane.nodes.map(({ url }) => url),
    urls,
  );
});

test("a test server in a separate process restarts at the same address", TIMEOUT, async () => {
  await using server = await ServerProcess.start({ nodes: 1 });
  await server.program.stop();
  await assertKept(server.own_url);
  await server.restart();
  assert.equal((await fetch(`${server.own_url}/healthz`)).status, 200);
});
