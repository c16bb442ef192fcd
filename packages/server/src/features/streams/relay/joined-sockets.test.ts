import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { seededRandom, systemClock } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { closeFrame, FrameWalk, JoinedSockets } from "./joined-sockets.ts";

const LIMIT = { timeout: 120_000 };
const MIB = 1024 * 1024;

/** Returns two connected ends of a TCP connection. */
async function socketPair(): Promise<[Socket, Socket]> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const one = connect({ port: (server.address() as AddressInfo).port, host: "127.0.0.1", allowHalfOpen: true });
  await once(one, "connect");
  const [other] = await accepted;
  server.close();
  for (const socket of [one, other]) socket.on("error", () => {});
  return [one, other];
}

/** Connects a viewer and a node through two joined sockets. */
async function startRig(head: Buffer = Buffer.alloc(0)) {
  const [viewer, viewer_here] = await socketPair();
  const [node, node_here] = await socketPair();
  const joined = new JoinedSockets({ viewer: viewer_here, node: node_here, head }, systemClock);
  const heard: Buffer[] = [];
  viewer.on("data", (bytes: Buffer) => heard.push(bytes));
  return {
    viewer,
    node,
    viewer_here,
    node_here,
    joined,
    heard: () => Buffer.concat(heard),
    [Symbol.dispose]: () => [viewer, node, viewer_here, node_here].forEach((socket) => socket.destroy()),
  };
}

/** Returns a WebSocket frame of up to 65,535 bytes. */
function frame(bytes: number, fill: number): Buffer {
  const header = Buffer.from([0x82, 126, 0, 0]);
  header.writeUInt16BE(bytes, 2);
  return Buffer.concat([header, Buffer.alloc(bytes, fill)]);
}

const CLOSED = closeFrame(1013, "the server is stopping");

test("forwards bytes unchanged in both directions until one side ends", LIMIT, async () => {
  using it = await startRig(frame(3, 1));
  it.node.write(frame(500, 2));
  const said: Buffer[] = [];
  it.node.on("data", (bytes: Buffer) => said.push(bytes));
  it.viewer.write("anything at all");
  await until("both have received the bytes", () => it.heard().length === 511 && Buffer.concat(said).toString() === "anything at all");
  assert.deepEqual(it.heard(), Buffer.concat([frame(3, 1), frame(500, 2)]));
  const ended = once(it.node, "end");
  it.viewer.end();
  await ended;
  it.node.end();
  await it.joined.ended;
});

test("pauses the node while a viewer does not read, and loses no byte", LIMIT, async () => {
  using it = await startRig();
  it.viewer.pause();
  // More bytes than the kernel buffers on both connections.
  const chunk = frame(60_000, 7);
  const count = Math.ceil((96 * MIB) / chunk.length);
  for (let i = 0; i < count; i += 1) it.node.write(chunk);
  let waiting = 0;
  it.node_here.on("data", () => (waiting = Math.max(waiting, it.viewer_here.writableLength)));
  await until("the node to be paused", () => it.node_here.isPaused());
  assert.ok(it.node.writableLength > 0);
  assert.ok(waiting < MIB, `${waiting} bytes wait`);
  it.viewer.resume();
  await until("all bytes to arrive", () => it.viewer.bytesRead === count * chunk.length, { progress: () => it.viewer.bytesRead });
});

test("sends the close frame after the current frame, and nothing after it", LIMIT, async () => {
  using it = await startRig();
  const [first, second] = [frame(1_000, 1), frame(1_000, 2)];
  it.node.write(first.subarray(0, 10));
  await until("the start of the frame", () => it.heard().length === 10);
  it.joined.end(1013, "the server is stopping");
  it.node.write(Buffer.concat([first.subarray(10), second]));
  await once(it.viewer, "end");
  assert.deepEqual(it.heard(), Buffer.concat([first, CLOSED]));
  it.viewer.end();
  await it.joined.ended;
});

test("sends a close frame if the node is lost between two frames, but not within a frame", LIMIT, async () => {
  using whole = await startRig();
  whole.node.write(frame(10, 1));
  await until("the frame", () => whole.heard().length === 14);
  whole.node.destroy();
  await once(whole.viewer, "end");
  assert.deepEqual(whole.heard().subarray(14), closeFrame(1013, "the robot's server is unreachable"));
  whole.viewer.end();
  await whole.joined.ended;

  using half = await startRig();
  half.node.write(frame(10, 1).subarray(0, 8));
  await until("half a frame", () => half.heard().length === 8);
  half.node.resetAndDestroy();
  await once(half.viewer, "end");
  assert.equal(half.heard().length, 8);
  await half.joined.ended;
});

test("sends no second close frame, and disconnects a viewer that does not answer the first", LIMIT, async () => {
  using it = await startRig();
  const own = closeFrame(4409, "agent offline");
  it.node.end(own);
  // The viewer never ends its side of the connection.
  await once(it.viewer, "end");
  assert.deepEqual(it.heard(), own);
  await it.joined.ended;
  assert.equal(it.viewer_here.destroyed, true);
});

const ROUNDS = 200;

const lengthOf = (size: number): Buffer => {
  if (size < 126) return Buffer.from([size]);
  const bytes = Buffer.alloc(size < 65_536 ? 3 : 9);
  bytes[0] = size < 65_536 ? 126 : 127;
  if (size < 65_536) bytes.writeUInt16BE(size, 1);
  else bytes.writeBigUInt64BE(BigInt(size), 1);
  return bytes;
};

/** Returns binary frames of these sizes; some of the small ones are pings. */
const framesOf = (sizes: readonly number[], mask: boolean): Buffer[] =>
  sizes.map((size, i) => {
    const length = lengthOf(size);
    if (mask) length[0]! |= 0x80;
    const opcode = i % 5 === 4 && size < 126 ? 9 : 2;
    return Buffer.concat([Buffer.from([0x80 | opcode]), length, Buffer.alloc(mask ? 4 : 0, 255), Buffer.alloc(size, 0x88)]);
  });

/** Returns the chunk ends that FrameWalk reports as boundaries between frames. */
function boundariesOf(bytes: Buffer, cuts: readonly number[]): number[] {
  const walk = new FrameWalk();
  const found: number[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    walk.walk(bytes.subarray(from, to));
    from = to;
    if (walk.at_boundary) found.push(to);
  }
  return found;
}

test("finds the ends of WebSocket frames wherever the stream is split into chunks", () => {
  const random = seededRandom(7);
  const below = (n: number): number => Math.floor(random() * n);
  const sizes = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000];
  for (let round = 0; round < ROUNDS; round += 1) {
    const frames = framesOf(
      Array.from({ length: 1 + below(8) }, () => sizes[below(sizes.length)]!),
      round % 2 === 0,
    );
    const bytes = Buffer.concat(frames);
    const ends = new Set(frames.map((_, i) => Buffer.concat(frames.slice(0, i + 1)).length));
    const near = [...ends].flatMap((end) => [end - 1, end, end + 1, end + 2]);
    const anywhere = Array.from({ length: 20 }, () => below(bytes.length));
    const cuts = [...new Set([...near, ...anywhere])].filter((at) => at > 0 && at < bytes.length).toSorted((a, b) => a - b);
    assert.deepEqual(
      boundariesOf(bytes, cuts),
      [...cuts, bytes.length].filter((at) => ends.has(at)),
    );
  }
});

test("finds the end of the current WebSocket frame, where another frame can be inserted", () => {
  const [one, two] = framesOf([300, 5], false) as [Buffer, Buffer];
  const bytes = Buffer.concat([one, two]);
  const walk = new FrameWalk();
  walk.walk(bytes.subarray(0, 10));
  assert.equal(walk.at_boundary, false);
  assert.equal(walk.step(bytes, 10), one.length);
  assert.equal(walk.at_boundary, true);
});

test("detects a WebSocket close frame at its first byte", () => {
  const frame = closeFrame(1013, "the server is stopping");
  const walk = new FrameWalk();
  walk.walk(frame.subarray(0, 2));
  assert.deepEqual([walk.close_seen, walk.at_boundary], [true, false]);
  walk.walk(frame.subarray(2));
  assert.deepEqual([walk.close_seen, walk.at_boundary], [true, true]);
  assert.deepEqual([frame[0], frame.readUInt16BE(2), frame.subarray(4).toString()], [0x88, 1013, "the server is stopping"]);
});
