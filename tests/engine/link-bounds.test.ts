import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { CONTROL_CHANNEL, encodeFrame, FLAG_MORE, FrameType, LINK_SUBPROTOCOL } from "@robofleet/protocol/link";
import { LINK_PATH } from "@robofleet/protocol/paths";
import { WebSocket } from "ws";
import { type Harness, startPlane } from "../harness/index.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 60_000 };

/** A link that was upgraded and challenged, and has said nothing yet. */
async function strange(plane: Harness): Promise<WebSocket> {
  const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL);
  socket.on("error", () => {});
  await once(socket, "message");
  return socket;
}

test("who has not said who it is cannot make the server keep parts of a message", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const socket = await strange(plane);
  socket.send(encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.alloc(64 * 1024, 32), FLAG_MORE));
  const [code] = (await once(socket, "close")) as [number];
  assert.equal(code, 1002);
});

test("a link that never says hello does not hold up the server's end", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const socket = await strange(plane);
  const closed = once(socket, "close");
  await plane.stop();
  await closed;
});
