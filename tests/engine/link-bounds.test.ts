import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import {
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FLAG_MORE,
  FrameType,
  type Hello,
  LINK_PROTOCOLS,
  LINK_SUBPROTOCOL,
} from "@roamfleet/protocol/link";
import { LINK_PATH } from "@roamfleet/protocol/paths";
import { WebSocket } from "ws";
import { answerChallenge } from "../../packages/swarm/src/testing/identity.ts";
import { type Harness, startPlane } from "../harness/index.ts";

const AT = "2030-01-01T00:00:00Z";
const TIMEOUT = { timeout: 120_000 };

/** Opens a link that has received its challenge but has not sent hello. */
async function strange(plane: Harness): Promise<WebSocket> {
  const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL);
  socket.on("error", () => {});
  await once(socket, "message");
  return socket;
}

test("the server buffers no message fragments of a robot before it is authenticated", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const socket = await strange(plane);
  socket.send(encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.alloc(64 * 1024, 32), FLAG_MORE));
  const [code] = (await once(socket, "close")) as [number];
  assert.equal(code, 1002);
});

test("a robot link that never sends hello does not delay the server's shutdown", TIMEOUT, async () => {
  await using plane = await startPlane({ at: AT });
  const socket = await strange(plane);
  const closed = once(socket, "close");
  await plane.stop();
  await closed;
});

test("records the disconnect of a robot whose close reason contains characters that cannot be stored", TIMEOUT, async () => {
  await using plane = await startPlane();
  const { id, identity } = await plane.enrollRobot({ online: false });
  const socket = new WebSocket(plane.url.replace(/^http/, "ws") + LINK_PATH, LINK_SUBPROTOCOL);
  const [challenge] = (await once(socket, "message")) as [Buffer];
  const { nonce } = JSON.parse(decodeFrame(challenge).payload.toString()) as { nonce: string };
  const hello: Hello = {
    type: "hello",
    protocols: [...LINK_PROTOCOLS],
    robot_id: id,
    signature: answerChallenge(identity, id, { nonce, host: new URL(plane.url).host, channel: "" }),
    boot_id: "boot",
    run_id: "run",
    outbox_id: "outbox",
    agent_version: "0.1.0",
    platform: { os: "linux", arch: "x64", hostname: "arm-7" },
    kinds: [],
    streams: [],
    generation: 0,
  };
  socket.send(encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.from(JSON.stringify(hello))));
  const robot = async () => (await plane.api.getRobot({ params: { id } })).data;
  await plane.until("the robot is online", async () => (await robot()).status === "online");
  socket.close(4242, "bye\0bye");
  await plane.until("the robot is offline", async () => (await robot()).status === "offline");
  const { items } = await plane.api.listRobotTimeline({ params: { id } });
  assert.equal(items.find(({ kind }) => kind === "robot.disconnected")?.data["reason"], "bye\ufffdbye");
});
