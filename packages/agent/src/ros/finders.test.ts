import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { test } from "node:test";
import { isDdsLikely, rosFinders } from "./finders.ts";
import { adapterOptions } from "./testing/adapter-options.ts";

const LIMIT = { timeout: 120_000 };

test("finds no ROS adapter at an address without a server or with another server", LIMIT, async (t) => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
  });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  for (const place of ["127.0.0.1:1", "[::1]:1", `127.0.0.1:${port}`]) {
    const options = adapterOptions({ foxglove_url: `ws://${place}`, rosbridge_url: `ws://${place}`, ros1_master_uri: `http://${place}` });
    for (const name of ["foxglove", "rosbridge", "ros1"] as const)
      assert.equal(await rosFinders[name]?.(options), undefined, `${name} ${place}`);
  }
});

test("opens no DDS port on a robot without signs of ROS 2", LIMIT, async () => {
  const bare = { adapters: ["dds"], prefixes: [], environment: {} } as const;
  assert.deepEqual(
    [
      bare,
      { ...bare, distro: "noetic" },
      { ...bare, distro: "jazzy" },
      { ...bare, domain_id: 0 },
      { ...bare, prefixes: ["/opt/ros/humble"] },
    ].map(isDdsLikely),
    [false, false, true, true, true],
  );
  assert.equal(await rosFinders.dds?.(adapterOptions({})), undefined);
});
