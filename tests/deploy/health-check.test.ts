import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "../processes/process.ts";
import { runChild } from "../../bin/run-child.mjs";

const LIMIT = { timeout: 120_000 };

const check = async (port: number, ...args: string[]): Promise<number | null> => {
  const env = { ...process.env, ROAMFLEET_LISTEN: `0.0.0.0:${port}` };
  return (await runChild(process.execPath, [path.join(ROOT, "deploy/docker/healthcheck.mjs"), ...args], { env })).code;
};

test("the container health check exits with 0 if the server is ready, and with 1 otherwise", LIMIT, async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url);
    response.writeHead(request.url === "/readyz" ? 503 : 200).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  assert.equal(await check(port, "/healthz"), 0);
  assert.equal(await check(port), 1);
  server.close();
  assert.equal(await check(port), 1);
  assert.deepEqual(asked, ["/healthz", "/readyz"]);
});
