import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { createClient } from "@roamfleet/sdk";
import { ScriptedPeer } from "../testing/scripted-peer.ts";
import { carryConnection } from "./carry.ts";

test("a connection closed before its tunnel opens closes the tunnel", { timeout: 120_000 }, async () => {
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
