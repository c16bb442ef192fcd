import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { FLAG_BULK, FLAG_MORE, FrameType } from "./frame.ts";
import { CHANNEL_WINDOW_BYTES, GRANT_BYTES, ITEM_OVERHEAD_BYTES } from "./receive-memory.ts";
import { BULK_BYTES_MIN, SLOW_SLICE_BYTES } from "./rate-meter.ts";
import { QUEUE_BYTES_MAX, SEND_CLASSES, type SendClass, type SendLimit, SendQueue, SOCKET_BYTES_MAX } from "./send-queue.ts";
import { StuckSocket } from "./testing/stuck-socket.ts";

const KIB = 1024;
const queueTo = (socket: StuckSocket): SendQueue => new SendQueue(socket, { now: () => 0, begin: () => () => {} });

test("sends frames strictly by priority class and in order within a class", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  const streams = SEND_CLASSES.slice(1);
  streams.forEach((send_class, i) => queue.openChannel(10 + i, send_class));
  while (socket.bufferedAmount < SOCKET_BYTES_MAX.control) queue.pushControl(FrameType.PING, 0, new Uint8Array(60 * KIB));
  const before = socket.sent.length;
  for (const [i] of [...streams.entries()].toReversed()) for (const n of [1, 2]) queue.pushMessage(10 + i, Buffer.of(n));
  queue.pushMessage(0, Buffer.of(9));
  socket.readAll();
  const order = socket.sent.slice(before).map(({ channel, payload }) => `${channel}:${payload[0]}`);
  assert.deepEqual(order, ["0:9", "10:1", "10:2", "11:1", "11:2", "12:1", "12:2", "13:1", "13:2"]);
});

test("sends text as UTF-8: in one frame, in several, and when frames are queued before it", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  const texts = ["", "Fähre 🤖", "€".repeat(22 * KIB), "ü".repeat(40 * KIB)];
  const filling = "x".repeat(60 * KIB);
  for (let bytes = 0; bytes < SOCKET_BYTES_MAX.control; bytes += filling.length) texts.push(filling);
  texts.push("queued");
  const taken: string[] = [];
  for (const text of texts) assert.equal(queue.pushText(text), true);
  socket.readAll();
  let parts: Buffer[] = [];
  for (const { type, channel, payload, flags } of socket.sent) {
    assert.deepEqual([type, channel], [FrameType.DATA, 0]);
    parts.push(payload);
    if ((flags & FLAG_MORE) !== 0) continue;
    taken.push(Buffer.concat(parts).toString("utf8"));
    parts = [];
  }
  assert.deepEqual(taken, texts);
  assert.ok(socket.sent.length > texts.length);
});

test("limits the bytes queued for a stuck socket but still accepts control messages", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  queue.openChannel(1, "logs");
  let taken = 0;
  while (queue.pushMessage(1, new Uint8Array(60 * KIB))) taken += 60 * KIB;
  assert.ok(socket.bufferedAmount <= SOCKET_BYTES_MAX.logs + 64 * KIB);
  assert.ok(taken <= SOCKET_BYTES_MAX.logs + 64 * KIB + QUEUE_BYTES_MAX.logs, `${taken}`);
  assert.ok(queue.room("logs") < 60 * KIB + ITEM_OVERHEAD_BYTES);
  assert.equal(queue.pushMessage(0, Buffer.of(7)), true);
  assert.deepEqual([...socket.sent.at(-1)!.payload], [7]);
});

test("limits the number of empty frames queued for a peer that does not read", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  let sent = 0;
  while (queue.pushControl(FrameType.PING, 0, new Uint8Array(0))) {
    sent += 1;
    assert.ok(sent < 1_000_000);
  }
  assert.ok(queue.waiting <= QUEUE_BYTES_MAX.control / ITEM_OVERHEAD_BYTES, `${queue.waiting} frames wait`);
  socket.readAll();
  assert.deepEqual([queue.waiting, queue.room("control")], [0, QUEUE_BYTES_MAX.control]);
});

test("queues a message entirely or not at all", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  let told = 0;
  let pushing = false;
  queue.on_room = () => {
    assert.equal(pushing, false);
    told += 1;
  };
  queue.openChannel(1, "logs");
  pushing = true;
  while (queue.pushMessage(1, new Uint8Array(100 * KIB)));
  const room = queue.room("logs");
  assert.equal(queue.pushMessage(1, new Uint8Array(200 * KIB).fill(1)), false);
  pushing = false;
  assert.equal(queue.room("logs"), room);
  socket.readAll();
  assert.ok(told > 0);
  assert.ok(socket.sent.every(({ payload }) => payload[0] === 0));
  assert.equal(queue.waiting, 0);
});

test("sends nothing for a dropped channel or after the queue is closed", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  queue.openChannel(2, "topics", { credit: 10 });
  assert.equal(queue.pushMessage(2, new Uint8Array(100)), true);
  queue.dropChannel(2);
  assert.equal(queue.credit(2, 10, 10), true);
  assert.deepEqual([queue.pushMessage(2, Buffer.of(1)), queue.waiting, queue.room("topics")], [false, 0, QUEUE_BYTES_MAX.topics]);
  queue.openChannel(1, "logs");
  while (queue.pushMessage(1, new Uint8Array(64 * KIB)));
  const sent = socket.sent.length;
  queue.close();
  socket.readAll();
  assert.equal(queue.pushControl(FrameType.PING, 0, Buffer.alloc(0)), false);
  assert.equal(socket.sent.length, sent);
});

test("a channel without credit does not block other channels of its class", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  queue.openChannel(2, "shell", { credit: 4, bytes_max: 100 });
  queue.openChannel(4, "shell", { credit: 1_000, bytes_max: 100 });
  assert.equal(queue.pushMessage(2, Buffer.from("abcdef")), true);
  assert.equal(queue.pushMessage(2, new Uint8Array(99)), false, "exceeds the channel's queue limit");
  queue.pushClose(2, Buffer.from("end"));
  queue.pushMessage(4, Buffer.from("x"));
  const text = (): string =>
    socket.sent.map(({ type, payload, flags }) => `${type}${flags & FLAG_MORE ? "+" : ""}${String(payload)}`).join(" ");
  assert.equal(text(), "3+abcd 3x");
  assert.equal(queue.credit(2, 2, 4), true);
  assert.equal(text(), "3+abcd 3x 3ef 5end");
  assert.equal(queue.pushMessage(2, Buffer.from("more")), false);
  assert.equal(queue.credit(4, 1_000, 1_000), false, "more than it has used");
});

test("a message that fits in one frame waits until there is credit for the whole message", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  queue.openChannel(2, "shell", { credit: CHANNEL_WINDOW_BYTES });
  const bytes = 60 * KIB;
  for (let i = 0; i < 5; i += 1) assert.equal(queue.pushMessage(2, new Uint8Array(bytes)), true);
  const sizes = (): number[] => socket.sent.map(({ payload, flags }) => (flags & FLAG_MORE ? -1 : 1) * payload.length);
  socket.readAll();
  assert.deepEqual(sizes(), [bytes, bytes, bytes, bytes]);
  assert.equal(queue.credit(2, GRANT_BYTES, CHANNEL_WINDOW_BYTES), true);
  socket.readAll();
  assert.deepEqual(sizes(), [bytes, bytes, bytes, bytes, bytes]);
});

test("limits unacknowledged bulk data to 8 KiB and sends shell data first", () => {
  const socket = new StuckSocket();
  const queue = queueTo(socket);
  queue.paced = true;
  for (const [channel, send_class] of [
    [1, "logs"],
    [2, "camera"],
    [4, "shell"],
  ] as const)
    queue.openChannel(channel, send_class);
  queue.pushMessage(2, new Uint8Array(100 * KIB));
  queue.pushMessage(1, new Uint8Array(100 * KIB));
  assert.equal(queue.in_flight, BULK_BYTES_MIN);
  assert.ok(socket.sent.every(({ payload, flags }) => payload.length === SLOW_SLICE_BYTES && (flags & FLAG_BULK) !== 0));
  queue.pushMessage(4, Buffer.from("ls"));
  assert.equal(socket.sent.at(-1)!.flags & FLAG_BULK, 0);
  const before = socket.sent.length;
  assert.equal(queue.acknowledge(SLOW_SLICE_BYTES), true);
  // Logs are sent before camera data, although the camera's message has started.
  assert.equal(socket.sent[before]!.channel, 1);
  assert.equal(queue.acknowledge(1_000_000), false);
});

test("the send queue loses and reorders nothing for any sequence of operations", () => {
  const WINDOW = 500;
  const lanes: readonly (readonly [number, SendClass, number])[] = [
    [0, "control", Infinity],
    [2, "shell", WINDOW],
    [1, "logs", Infinity],
    [4, "topics", WINDOW],
    [6, "topics", WINDOW],
    [8, "camera", WINDOW],
  ];
  const action = fc.oneof(
    fc.record({ do: fc.constant("push" as const), lane: fc.nat(lanes.length - 1), bytes: fc.oneof(fc.nat(2_000), fc.nat(100_000)) }),
    fc.record({ do: fc.constant("credit" as const), lane: fc.nat(lanes.length - 1), bytes: fc.nat(WINDOW) }),
    fc.record({ do: fc.constant("read" as const), frames: fc.nat(5) }),
    fc.record({ do: fc.constant("acknowledge" as const), share: fc.double({ min: 0, max: 1, noNaN: true }) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 120 }), fc.boolean(), (actions, paced) => {
      const socket = new StuckSocket();
      let now = 0;
      const queue = new SendQueue(socket, { now: () => (now += 3), begin: () => () => {} });
      queue.paced = paced;
      for (const [channel, send_class, credit] of lanes.slice(1)) queue.openChannel(channel, send_class, { credit });
      const pushed = new Map<number, number[]>(lanes.map(([channel]) => [channel, []]));
      const credit = new Map<number, number>(lanes.map(([channel, , given]) => [channel, given]));
      const checkSent = (): void => {
        for (const [channel, , given] of lanes) {
          const frames = socket.sent.filter((frame) => frame.channel === channel);
          const bytes = frames.reduce((sum, { payload }) => sum + payload.length, 0);
          if (given !== Infinity) assert.ok(bytes <= credit.get(channel)!, `channel ${channel} sent ${bytes} of ${credit.get(channel)}`);
          assert.deepEqual(sizesOf(frames), pushed.get(channel)!.slice(0, sizesOf(frames).length));
        }
        for (const send_class of SEND_CLASSES)
          assert.ok(queue.room(send_class) >= -100_000 && queue.room(send_class) <= QUEUE_BYTES_MAX[send_class]);
        assert.ok(socket.bufferedAmount <= SOCKET_BYTES_MAX.control + 64 * KIB + 8);
        if (paced) assert.ok(queue.in_flight <= 256 * KIB);
      };
      for (const one of actions) {
        if (one.do === "push") {
          const [channel] = lanes[one.lane]!;
          if (queue.pushMessage(channel, new Uint8Array(one.bytes))) pushed.get(channel)!.push(one.bytes);
        } else if (one.do === "credit") {
          const [channel, , given] = lanes[one.lane]!;
          if (given === Infinity) continue;
          credit.set(channel, credit.get(channel)! + one.bytes);
          if (!queue.credit(channel, one.bytes, WINDOW)) credit.set(channel, credit.get(channel)! - one.bytes);
        } else if (one.do === "read") socket.read(one.frames);
        else queue.acknowledge(Math.floor(queue.in_flight * one.share));
        checkSent();
      }
      // Everything is delivered once the other end reads, credits and acknowledges.
      for (let i = 0; queue.waiting > 0 && i < 10_000; i += 1) {
        socket.readAll();
        queue.acknowledge(queue.in_flight);
        for (const [channel, , given] of lanes) {
          if (given === Infinity) continue;
          const used = socket.sent.filter((frame) => frame.channel === channel).reduce((sum, { payload }) => sum + payload.length, 0);
          const give = used + WINDOW - credit.get(channel)!;
          if (give > 0 && queue.credit(channel, give, WINDOW)) credit.set(channel, credit.get(channel)! + give);
        }
      }
      for (const [channel] of lanes)
        assert.deepEqual(sizesOf(socket.sent.filter((frame) => frame.channel === channel)), pushed.get(channel));
    }),
    { numRuns: 150 },
  );
});

/** Sizes of complete messages. */
function sizesOf(frames: readonly { payload: Uint8Array; flags: number }[]): number[] {
  const sizes: number[] = [];
  let size = 0;
  for (const { payload, flags } of frames) {
    size += payload.length;
    if (flags & FLAG_MORE) continue;
    sizes.push(size);
    size = 0;
  }
  return sizes;
}

test("a rate limit delays bulk data, but not control and shell frames", () => {
  const socket = new StuckSocket();
  let [tokens, timers] = [10 * KIB, [] as (() => void)[]];
  const limit: SendLimit = {
    spend: (bytes) => Math.max(0, -(tokens -= bytes)),
    setTimer: (_, work) => {
      timers.push(work);
      return { cancel: () => (timers = timers.filter((one) => one !== work)) };
    },
  };
  const queue = new SendQueue(socket, { now: () => 0, begin: () => () => {}, limit });
  let told = 0;
  queue.on_room = () => (told += 1);
  queue.openChannel(1, "logs");
  queue.openChannel(2, "shell");
  const sent = (channel: number): number => socket.sent.filter((one) => one.channel === channel).length;
  for (let i = 0; i < 3; i += 1) assert.ok(queue.pushMessage(1, new Uint8Array(8 * KIB)));
  socket.readAll();
  // The second message starts within the first 10 KiB of tokens and exceeds them. The third message waits for the timer.
  assert.deepEqual([sent(1), timers.length], [2, 1]);
  queue.pushMessage(2, Buffer.of(1));
  queue.pushControl(FrameType.PING, 0, Buffer.of(1));
  assert.deepEqual([sent(2), sent(0)], [1, 1]);
  tokens += 10 * KIB;
  told = 0;
  timers.splice(0)[0]!();
  assert.deepEqual([sent(1), told, timers.length], [3, 1, 0]);
  tokens = -1;
  queue.pushMessage(1, Buffer.of(1));
  queue.close();
  assert.deepEqual(timers, []);
});
