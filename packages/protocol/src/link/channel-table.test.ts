import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { CHANNELS_MAX, ChannelTable, CLOSE_NOT_AVAILABLE, type StreamSource } from "./channel-table.ts";
import { type Channel, ChannelRefused } from "./channel.ts";
import { decodeFrame, encodeFrame, FLAG_MORE, FrameError, FrameType } from "./frame.ts";
import { CHANNEL_WINDOW_BYTES, ITEM_OVERHEAD_BYTES, LINK_RECEIVE_BYTES_MAX, ReceiveMemory } from "./receive-memory.ts";
import { type FrameSocket, SendQueue } from "./send-queue.ts";
import { channelPair } from "./testing/channel-pair.ts";

const LIMIT = { timeout: 120_000 };
const KIB = 1024;

interface End {
  table: ChannelTable;
  queue: SendQueue;
  /** Payload bytes of DATA sent by this end. */
  sent: () => number;
}

/** Two ends whose frames arrive immediately; timers fire when a test triggers them. */
function pair(sources: Record<string, StreamSource>): { server: End; robot: End; fire: () => void } {
  const timers = new Set<() => unknown>();
  const clock = {
    setTimer: (_ms: number, work: () => unknown) => {
      timers.add(work);
      return { cancel: () => void timers.delete(work) };
    },
  };
  const end = (name: "server" | "robot", other: () => End): End => {
    let sent = 0;
    const socket: FrameSocket = {
      bufferedAmount: 0,
      sendFrame: (type, channel, payload, flags) => {
        if (type === FrameType.DATA) sent += payload.length;
        const bytes = encodeFrame(type, channel, payload, flags);
        queueMicrotask(() => other().table.receive(decodeFrame(bytes)));
      },
    };
    const queue = new SendQueue(socket, { now: () => 0 });
    const table: ChannelTable = new ChannelTable({
      queue,
      end: name,
      clock,
      sources: new Map(Object.entries(sources)),
      stuck: assert.fail,
    });
    queue.on_room = () => table.retry();
    return { table, queue, sent: () => sent };
  };
  const server: End = end("server", () => robot);
  const robot: End = end("robot", () => server);
  return { server, robot, fire: () => [...timers].forEach((work) => work()) };
}

const echo: StreamSource = (channel) =>
  void (async () => {
    for await (const message of channel) if (!(await channel.write(message))) return;
  })();

const turns = async (count = 50): Promise<void> => {
  for (let i = 0; i < count; i += 1) await new Promise((resolve) => setImmediate(resolve));
};

/** Writes until the channel refuses; returns the accepted bytes. */
async function fill(channel: Channel, message = new Uint8Array(32 * KIB)): Promise<number> {
  let taken = 0;
  for (;;) {
    const written = await Promise.race([channel.write(message), turns().then(() => undefined)]);
    if (written === undefined) return taken;
    taken += message.length;
  }
}

test("a channel carries messages both ways and closes at both ends", LIMIT, async () => {
  const given: unknown[] = [];
  const { server } = pair({ echo: (channel, params) => (given.push(params), echo(channel, params)) });
  const channel = await server.table.open("echo", "shell", { cols: 80 });
  assert.equal(await channel.write(Buffer.from("hello")), true);
  assert.equal(String(await channel.read()), "hello");
  channel.close(1000, "enough");
  assert.deepEqual([await channel.ended, given, server.table.size], [{ code: 1000, reason: "enough" }, [{ cols: 80 }], 0]);
  assert.equal(await channel.write(Buffer.from("more")), false);
});

test("opening a channel fails with 4410 for an unknown kind and with 4408 on timeout", LIMIT, async () => {
  const { server, fire } = pair({});
  await assert.rejects(server.table.open("camera", "camera"), (error) => error instanceof ChannelRefused && error.code === 4410);
  const { promise, resolve } = Promise.withResolvers<void>();
  const mute = new ChannelTable({
    queue: new SendQueue({ bufferedAmount: 0, sendFrame: () => resolve() }, { now: () => 0 }),
    end: "server",
    clock: { setTimer: (_ms, work) => (void promise.then(work), { cancel: () => {} }) },
    stuck: assert.fail,
  });
  await assert.rejects(mute.open("shell", "shell"), (error) => error instanceof ChannelRefused && error.code === 4408);
  fire();
  assert.deepEqual([server.table.size, mute.size], [0, 0]);
});

test("if the receiver of one channel stops reading, senders on other channels continue", LIMIT, async () => {
  const kept: Channel[] = [];
  const { server } = pair({ echo, deaf: (channel) => void kept.push(channel) });
  const stuck = await server.table.open("deaf", "topics");
  const taken = await fill(stuck);
  assert.ok(taken <= CHANNEL_WINDOW_BYTES + 128 * KIB, `${taken} bytes were taken`);
  assert.equal(server.sent(), CHANNEL_WINDOW_BYTES);
  const other = await server.table.open("echo", "topics");
  for (let i = 0; i < 30; i += 1) {
    await other.write(new Uint8Array(64 * KIB).fill(i));
    assert.equal((await other.read())![0], i);
  }
  // The rest arrives once the receiver reads.
  let read = 0;
  while (read < taken) read += (await kept[0]!.read())!.length;
});

test("fast and slow readers receive all messages whole and in order, whatever their size", LIMIT, async () => {
  const size = fc.oneof(fc.nat(200), fc.nat(70 * KIB), fc.nat(400 * KIB), fc.constantFrom(60 * KIB + 1, 64 * KIB));
  await fc.assert(
    fc.asyncProperty(fc.array(size, { maxLength: 40 }), fc.nat(5), async (sizes, pause) => {
      const arrived: number[] = [];
      const done = Promise.withResolvers<void>();
      const sink: StreamSource = async (channel) => {
        for await (const message of channel) {
          arrived.push(message.length);
          await turns(pause);
        }
        done.resolve();
      };
      const { server } = channelPair({ sink });
      const channel = await server.open("sink", "topics");
      for (const bytes of sizes) assert.equal(await channel.write(new Uint8Array(bytes)), true);
      channel.close();
      await done.promise;
      assert.deepEqual(arrived, sizes);
    }),
    { numRuns: 60 },
  );
});

test("a writer can wait until its data has been sent", LIMIT, async () => {
  const kept: Channel[] = [];
  const { server } = pair({ deaf: (channel) => void kept.push(channel) });
  const channel = await server.table.open("deaf", "camera");
  for (let sent = 0; sent < CHANNEL_WINDOW_BYTES; sent += 64 * KIB) await channel.write(new Uint8Array(64 * KIB));
  assert.equal(await channel.drained(), true);
  // The queue accepts this message beyond the credit.
  await channel.write(new Uint8Array(32 * KIB));
  const drained = channel.drained();
  assert.equal(await Promise.race([drained, turns().then(() => "waits")]), "waits");
  await kept[0]!.read();
  assert.equal(await drained, true);
  await fill(channel);
  const cut = channel.drained();
  server.table.endAll("cut");
  assert.deepEqual([await cut, await channel.drained()], [false, false]);
});

test("delivers a message larger than the channel window", LIMIT, async () => {
  const { server } = pair({ echo });
  const channel = await server.table.open("echo", "camera");
  await channel.write(new Uint8Array(1024 * KIB).fill(3));
  assert.equal((await channel.read())!.length, 1024 * KIB);
});

test("sends at most one long message and one window to a receiver that does not read", LIMIT, async () => {
  const kept: Channel[] = [];
  const { server } = pair({ deaf: (channel) => void kept.push(channel) });
  const channel = await server.table.open("deaf", "camera");
  const message = new Uint8Array(133 * KIB);
  const taken = await fill(channel, message);
  assert.ok(server.sent() <= message.length + CHANNEL_WINDOW_BYTES, `${server.sent()} bytes were sent`);
  // All messages arrive once the receiver reads.
  for (let read = 0; read < taken; read += message.length) assert.equal((await kept[0]!.read())!.length, message.length);
});

test("delivers data written before a close and reports the reason of a close or reset", LIMIT, async () => {
  const ends: unknown[] = [];
  const read: number[] = [];
  const { server } = pair({
    sink: (channel) =>
      void (async () => {
        for await (const message of channel) read.push(message.length);
        ends.push(await channel.ended);
      })(),
    leave: (channel) => channel.reset(4001, "not today"),
  });
  const closed = await server.table.open("sink", "topics");
  await closed.write(new Uint8Array(300 * KIB));
  closed.close(1000, "done");
  await turns();
  assert.deepEqual([read, ends], [[300 * KIB], [{ code: 1000, reason: "done" }]]);
  await assert.rejects(server.table.open("leave", "topics"), /not today/);
});

test("closing the link closes every channel and resolves its readers and writers", LIMIT, async () => {
  const { server } = pair({ deaf: () => {} });
  const channel = await server.table.open("deaf", "topics");
  await fill(channel);
  const reading = channel.read();
  server.table.endAll("cut");
  assert.deepEqual([await reading, await channel.ended, server.table.size], [undefined, { code: 1006, reason: "cut" }, 0]);
});

test("limits the number of channels of a link", LIMIT, async () => {
  const { server } = pair({ echo });
  const opened = await Promise.allSettled(Array.from({ length: CHANNELS_MAX + 10 }, () => server.table.open("echo", "topics")));
  const count = opened.filter(({ status }) => status === "fulfilled").length;
  assert.ok(count >= CHANNELS_MAX && count <= CHANNELS_MAX + 2, `${count}`);
});

test("removes a closed channel with unsent data when the other end resets it", LIMIT, async () => {
  const kept: Channel[] = [];
  const { server, robot } = pair({ deaf: (channel) => void kept.push(channel) });
  for (let i = 0; i < CHANNELS_MAX + 10; i += 1) {
    const channel = await server.table.open("deaf", "camera");
    await fill(channel);
    channel.close(1000, "enough");
    kept.at(-1)!.reset(1000, "the viewer left");
    await turns();
    assert.deepEqual([server.queue.channels, robot.table.size], [0, 0]);
  }
});

test("ignores late frames of a closed channel but rejects protocol violations", LIMIT, async () => {
  const { server, robot } = pair({ deaf: () => {} });
  const frame = (type: FrameType, channel: number, payload: Uint8Array = Buffer.alloc(0)) =>
    decodeFrame(encodeFrame(type, channel, payload));
  const channel = await server.table.open("deaf", "topics");
  channel.reset(1000, "");
  await turns();
  // The channel existed before, so these frames count as late and are ignored.
  server.table.receive(frame(FrameType.DATA, channel.id, Buffer.alloc(10)));
  server.table.receive(frame(FrameType.CLOSE, channel.id));
  for (const broken of [
    frame(FrameType.DATA, 100),
    frame(FrameType.DATA, 3),
    frame(FrameType.OPEN, 4, Buffer.from("{}")),
    frame(FrameType.OPEN, 5, Buffer.from("{")),
    frame(FrameType.CREDIT, 0, Buffer.alloc(3)),
    frame(FrameType.CREDIT, 0, Buffer.alloc(4, 1)),
  ])
    assert.throws(() => server.table.receive(broken), FrameError, JSON.stringify(broken));
  const flood = await server.table.open("deaf", "topics");
  for (let i = 0; i < CHANNEL_WINDOW_BYTES / (64 * KIB); i += 1)
    robot.table.receive(frame(FrameType.DATA, flood.id, Buffer.alloc(64 * KIB)));
  assert.throws(() => robot.table.receive(frame(FrameType.DATA, flood.id, Buffer.alloc(1))), /more than its credit/);
});

test("an error in a stream handler resets only the channel of the stream", LIMIT, async () => {
  const { server } = pair({
    echo,
    throws: () => {
      throw new Error("thrown");
    },
    rejects: () => Promise.reject(new Error("rejected")),
  });
  const other = await server.table.open("echo", "shell", {});
  for (const kind of ["throws", "rejects"]) {
    const channel = await server.table.open(kind, "shell", {}).catch(() => undefined);
    assert.deepEqual(await channel?.ended, { code: CLOSE_NOT_AVAILABLE, reason: "this stream failed" });
  }
  await other.write(Buffer.from("still here"));
  assert.equal(Buffer.from((await other.read())!).toString(), "still here");
});

test("resets a channel with too many unread empty messages while other channels continue", LIMIT, async () => {
  const kept: Channel[] = [];
  const { server, robot } = pair({ echo, deaf: (channel) => void kept.push(channel) });
  const deaf = await server.table.open("deaf", "topics");
  const other = await server.table.open("echo", "topics");
  const empty = decodeFrame(encodeFrame(FrameType.DATA, deaf.id, Buffer.alloc(0)));
  for (let i = 0; i <= LINK_RECEIVE_BYTES_MAX / ITEM_OVERHEAD_BYTES; i += 1) robot.table.receive(empty);
  assert.equal((await kept[0]!.ended).code, 4429);
  await other.write(Buffer.from("on"));
  assert.equal(String(await other.read()), "on");
});

test("a reset channel releases its receive memory before its data is read", LIMIT, async () => {
  const memory = new ReceiveMemory();
  const queue = new SendQueue({ bufferedAmount: 0, sendFrame: () => {} }, { now: () => 0 });
  const clock = { setTimer: () => ({ cancel: () => {} }) };
  const table = new ChannelTable({ queue, end: "server", clock, memory, stuck: assert.fail });
  const opening = table.open("echo", "topics");
  const receive = (type: FrameType, bytes: number, flags = 0): void =>
    table.receive(decodeFrame(encodeFrame(type, 2, Buffer.alloc(bytes, 32), flags)));
  receive(FrameType.ACCEPT, 0);
  const channel = await opening;
  receive(FrameType.DATA, 10);
  receive(FrameType.DATA, 10, FLAG_MORE);
  assert.equal(memory.bytes, 2 * (10 + ITEM_OVERHEAD_BYTES));
  receive(FrameType.RESET, 0);
  assert.equal(memory.bytes, 0);
  assert.equal((await channel.read())?.length, 10);
  assert.equal(memory.bytes, 0);
});
