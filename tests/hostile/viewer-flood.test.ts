import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import type { LogRecord } from "@roamfleet/protocol/routes";
import { WebSocket } from "ws";
import { startPlane } from "../harness/index.ts";
import { opened } from "../spec/web-socket.ts";

const LIMIT = { timeout: 120_000 };
/** Empty frames, encoded as a client sends them, 6 bytes each. */
const FRAMES = Buffer.concat(Array.from({ length: 100_000 }, () => Buffer.from([0x82, 0x80, 0, 0, 0, 0])));
/** Maximum number of bytes that the server may read in a few seconds, plus the size of the kernel buffers at both ends. */
const TAKEN_MAX = 12 * 1024 * 1024;
const OFFERED = 32 * 1024 * 1024;
const ROUNDS = 20;

test("a viewer that floods the server with empty frames does not affect other viewers or the API", LIMIT, async () => {
  await using plane = await startPlane();
  const fleet_id = await plane.homeFleet();
  const robot = await plane.enrollRobot({ fleet_id });
  const { admin_token: token } = plane.default_org;
  const path = `/api/robots/${robot.id}/logs/ws?token=${token}`;
  const ws = new WebSocket(plane.url.replace(/^http/, "ws") + path);
  const [{ socket }] = (await once(ws, "upgrade")) as [IncomingMessage];
  let ended = false;
  ws.once("close", () => (ended = true));
  const { frames, ws: other } = await opened(plane.url + path);
  for (let offered = 0; offered < OFFERED; offered += FRAMES.length) socket.write(FRAMES);
  const taken = (): number => socket.bytesWritten - socket.writableLength;
  for (let round = 1; round <= ROUNDS; round += 1) {
    robot.log(`record ${round}`);
    await plane.until("the other viewer's record", () =>
      frames.some((frame) => (JSON.parse(String(frame)) as LogRecord).message === `record ${round}`),
    );
    await plane.api.listRobots();
  }
  assert.ok(taken() < TAKEN_MAX, `the server took ${taken()} bytes of ${OFFERED}`);
  assert.equal(ended, false);
  for (const one of [ws, other]) one.terminate();
});
