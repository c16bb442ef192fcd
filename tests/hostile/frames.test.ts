import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { deflateRawSync } from "node:zlib";
import {
  CONTROL_CHANNEL,
  decodeFrame,
  encodeFrame,
  FLAG_MORE,
  FLAG_PACKED,
  FLAG_REPLY,
  FrameType,
  LOG_CHANNEL,
  type ServerMessage,
} from "@roamfleet/protocol/link";
import type { WebSocket } from "ws";
import { MESSAGE_VALUES_MAX } from "../../packages/server/src/link/inbound.ts";
import type { LiveSession } from "../../packages/server/src/link/live-session.ts";
import { LINK_FRAMES, LINK_OPEN_COST, PauseReason } from "../../packages/server/src/link/read-limits.ts";
import { type Harness, startPlane } from "../harness/index.ts";
import { controlFrame, helloOf, openLink, RawRobot, wireFrame } from "./raw-robot.ts";

const TIMEOUT = { timeout: 120_000 };
let plane: Harness;
before(async () => void (plane = await startPlane()));
after(() => plane[Symbol.asyncDispose]());

const more = (channel: number, bytes: number): Buffer => encodeFrame(FrameType.DATA, channel, Buffer.alloc(bytes, 32), FLAG_MORE);

test("closes a robot's link if a message has too many fragments, whatever their size", TIMEOUT, async () => {
  const robot = await plane.enrollRobot({ online: false });
  for (const channel of [CONTROL_CHANNEL, LOG_CHANNEL])
    for (const bytes of [0, 1, 64 * 1024]) {
      const raw = await RawRobot.connect(plane.url, robot);
      const frames = Buffer.concat(Array.from({ length: 64 }, () => wireFrame(more(channel, bytes))));
      for (let sent = 0; sent < 5_000 && raw.open; sent += 64) await raw.write(frames);
      assert.ok([1002, 1006].includes(await raw.closed), `${channel} ${bytes}`);
    }
});

test("closes a robot's link if a message contains too many values", TIMEOUT, async () => {
  const robot = await plane.enrollRobot({ online: false });
  const raw = await RawRobot.connect(plane.url, robot);
  const closed = once(raw.socket, "close") as Promise<[number, Buffer]>;
  const text = `{"type":"health","snapshot":[${"[],".repeat(400_000)}[]]}`;
  for (let at = 0; at < text.length; at += 60_000)
    await raw.frame(
      encodeFrame(FrameType.DATA, CONTROL_CHANNEL, Buffer.from(text.slice(at, at + 60_000)), at + 60_000 < text.length ? FLAG_MORE : 0),
    );
  const [code, reason] = await closed;
  assert.deepEqual([code, String(reason)], [1008, `message has more than ${MESSAGE_VALUES_MAX} values`]);
});

const packed = (channel: number, bytes: Uint8Array): Buffer => encodeFrame(FrameType.DATA, channel, bytes, FLAG_PACKED);

for (const [name, bytes, features] of [
  ["that is over the limit when it is decompressed", deflateRawSync(Buffer.alloc(60 * 1024 * 1024, 32)), ["packed"]],
  ["that is damaged", Buffer.alloc(1_000, 0xff), ["packed"]],
  ["although it did not announce the feature", deflateRawSync(Buffer.from('{"type":"logs","records":[]}')), ["credit"]],
] satisfies [string, Buffer, string[]][])
  test(`closes the link of a robot that sends a compressed message ${name}`, TIMEOUT, async () => {
    const robot = await plane.enrollRobot({ online: false });
    for (const channel of [CONTROL_CHANNEL, LOG_CHANNEL]) {
      const raw = await RawRobot.connect(plane.url, robot, features);
      await raw.frame(packed(channel, bytes));
      assert.ok([1002, 1006].includes(await raw.closed), `${channel}`);
    }
  });

test("counts compressed messages by their decompressed size against the frame rate of a robot", TIMEOUT, async () => {
  // While the clock is stopped, the robot gets no new rate limit tokens.
  await using still = await startPlane({ at: "2030-01-01T00:00:00Z", nodes: 1 });
  const robot = await still.enrollRobot({ online: false });
  const raw = await RawRobot.connect(still.url, robot, ["packed"]);
  // Each message has 1 KB and decompresses to almost 1 MiB of JSON. Its size is valid, but the JSON is not a message of a robot.
  const text = `{"type":"progress","target_id":"t","attempt":1,"bytes_done":0,"bytes_total":0${" ".repeat(1_000_000)}}`;
  const frame = wireFrame(packed(CONTROL_CHANNEL, deflateRawSync(text)));
  const session = (): LiveSession | undefined => still.session(robot.id) as LiveSession | undefined;
  await still.until("the link is open", () => session() !== undefined);
  for (let sent = 0; sent < 40 && session()?.valve.isPausedFor(PauseReason.rate) !== true; sent += 1) await raw.write(frame);
  await still.until("reading is paused", () => session()?.valve.isPausedFor(PauseReason.rate) === true);
  raw.socket.terminate();
});

test("disconnects a robot that sends requests and does not read the responses", TIMEOUT, async () => {
  const robot = await plane.enrollRobot({ online: false });
  const raw = await RawRobot.connect(plane.url, robot);
  raw.tcp.pause();
  const pings = Buffer.concat(Array.from({ length: 4_096 }, () => wireFrame(encodeFrame(FrameType.PING, 0, Buffer.alloc(125)))));
  // The kernel buffers some MiB of the responses.
  for (let i = 0; i < 200 && plane.session(robot.id) !== undefined; i += 1) await raw.write(pings);
  await plane.until("the link is cut", () => plane.session(robot.id) === undefined);
  raw.tcp.resume();
  await raw.end();
});

test("rate-limits a robot that floods its link with frames, and keeps it connected", TIMEOUT, async () => {
  // While the clock is stopped, the robot gets no new rate limit tokens.
  await using still = await startPlane({ at: "2030-01-01T00:00:00Z", nodes: 1 });
  const robot = await still.enrollRobot({ online: false });
  const raw = await RawRobot.connect(still.url, robot);
  const { valve } = still.session(robot.id) as LiveSession;
  const pong = wireFrame(encodeFrame(FrameType.PING, CONTROL_CHANNEL, Buffer.alloc(0), FLAG_REPLY));
  await raw.write(Buffer.concat(Array.from({ length: LINK_FRAMES.burst }, () => pong)));
  await still.until("the server to stop reading", () => valve.isPausedFor(PauseReason.rate));
  const replied = once(raw.socket, "message");
  await raw.frame(encodeFrame(FrameType.PING, CONTROL_CHANNEL, Buffer.alloc(0)));
  await still.advance({ seconds: 1 });
  await replied;
  await raw.end();
});

test("disconnects a robot that sends anything except hello before it is admitted", TIMEOUT, async () => {
  const { id, identity } = await plane.enrollRobot({ online: false });
  const sendHello = (socket: WebSocket, hello: Buffer): void => socket.send(hello);
  const ping = (socket: WebSocket): void => socket.ping();
  const pong = (socket: WebSocket): void => socket.pong();
  const frame = (socket: WebSocket): void => socket.send(encodeFrame(FrameType.PING, CONTROL_CHANNEL, Buffer.alloc(0)));
  for (const sends of [
    [ping, sendHello],
    [pong, sendHello],
    [sendHello, frame],
  ]) {
    const { socket, tcp, challenge } = await openLink(plane.url);
    const end = Promise.race([once(socket, "close").then(() => "closed"), once(socket, "message").then(() => "welcomed")]);
    // Send both in one chunk, so that the server receives the second before it has admitted the robot.
    tcp.cork();
    for (const send of sends) send(socket, controlFrame(helloOf(id, identity, challenge)));
    tcp.uncork();
    assert.equal(await end, "closed", sends.map(({ name }) => name).join(", "));
  }
});

test("refuses a robot that connects too often and sends it the time to wait", TIMEOUT, async () => {
  // While the clock is stopped, the robot gets no new rate limit tokens, however slow the machine is.
  await using still = await startPlane({ at: "2030-01-01T00:00:00Z", nodes: 1 });
  const robot = await still.enrollRobot({ online: false });
  const admitted = Math.ceil(LINK_FRAMES.burst / LINK_OPEN_COST);
  const links = await Promise.all(Array.from({ length: admitted + 50 }, () => openLink(still.url)));
  const answers = await Promise.all(
    links.map(async ({ socket, challenge }) => {
      const answered = once(socket, "message") as Promise<[Buffer]>;
      socket.send(controlFrame(helloOf(robot.id, robot.identity, challenge)));
      const [frame] = await answered;
      socket.terminate();
      return JSON.parse(decodeFrame(frame).payload.toString()) as ServerMessage;
    }),
  );
  const refused = answers.filter((answer) => answer.type === "refused");
  assert.equal(refused.length, 50);
  for (const { code, retry_after_ms = 0 } of refused) assert.deepEqual([code, retry_after_ms > 0], ["busy", true]);
});
