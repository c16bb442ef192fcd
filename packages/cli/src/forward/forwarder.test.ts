import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { createClient } from "@roamfleet/sdk";
import { Failure } from "../failure.ts";
import { ScriptedPeer } from "../testing/scripted-peer.ts";
import { carryConnection, parsePortSpec } from "./forwarder.ts";

test("closes a tunnel whose local connection was closed before the tunnel opened", { timeout: 120_000 }, async () => {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  await using peer = await ScriptedPeer.start(
    () => undefined,
    (socket) => void socket.once("close", () => resolve()),
  );
  const listener = createServer({ allowHalfOpen: true });
  await once(listener.listen(0, "127.0.0.1"), "listening");
  try {
    const local = connect((listener.address() as AddressInfo).port, "127.0.0.1");
    const [socket] = (await once(listener, "connection")) as [Socket];
    socket.on("error", () => {});
    const closed = new Promise((settle) => socket.once("close", settle));
    local.resetAndDestroy();
    await closed;
    const stream = await createClient({ base_url: peer.base_url, token: "rf_user_test" }).stream("forward", {
      robot_id: "rob_1",
      query: { host: "127.0.0.1", port: 1 },
    });
    await Promise.all([carryConnection(socket, stream), ended]);
    assert.notEqual(stream.ending, undefined);
  } finally {
    listener.close();
  }
});

test("parses all forms of port mappings", () => {
  const specs: [string, [number, string, number]][] = [
    ["8080:80", [8080, "127.0.0.1", 80]],
    ["0:80", [0, "127.0.0.1", 80]],
    ["80", [80, "127.0.0.1", 80]],
    ["8080:10.0.0.7:80", [8080, "10.0.0.7", 80]],
    ["8080:lidar.local:80", [8080, "lidar.local", 80]],
    ["8080:[fd00::7]:80", [8080, "fd00::7", 80]],
  ];
  for (const [text, [local_port, host, port]] of specs) assert.deepEqual(parsePortSpec(text), { local_port, host, port }, text);
});

test("an invalid port mapping is a usage error", () => {
  for (const text of [
    "",
    "http",
    "8080:",
    ":80",
    "8080:http",
    "lidar:80",
    "1:2:3:4",
    "8080:0",
    "70000:80",
    "80:70000",
    "8080:fd00::7:80",
    "-1:80",
  ])
    assert.throws(
      () => parsePortSpec(text),
      (error) => error instanceof Failure && error.exit_code === 2,
      text,
    );
});
