import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { RfHome } from "./testing/run-rf.ts";

const LIMIT = { timeout: 120_000 };
const AUTHORITY = ["--base-url", "https://fleet.invalid"];

test("rf uses HTTPS_PROXY for all connections, except for hosts in NO_PROXY", LIMIT, async (t) => {
  const asked: string[] = [];
  const proxy = createServer();
  proxy.on("connect", (request, socket) => {
    asked.push(request.url ?? "");
    socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => proxy.close().closeAllConnections());
  await using rf = await RfHome.make();
  const env = { HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, ROAMFLEET_TOKEN: "rf_user_x" };
  for (const words of [
    ["robots", "show", "rob_1"],
    ["robots", "topics", "rob_1", "echo", "/chatter"],
    ["login", "--no-token"],
  ]) {
    asked.length = 0;
    await rf.run([...AUTHORITY, ...words], { env });
    assert.deepEqual(new Set(asked), new Set(["fleet.invalid:443"]), words.join(" "));
    asked.length = 0;
    await rf.run([...AUTHORITY, ...words], { env: { ...env, NO_PROXY: ".invalid" } });
    assert.deepEqual(asked, [], words.join(" "));
  }
});
