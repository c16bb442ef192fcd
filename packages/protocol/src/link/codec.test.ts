import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  decodeFrame,
  encodeFrame,
  FLAG_MORE,
  FRAME_HEADER_BYTES,
  FRAME_PAYLOAD_BYTES_MAX,
  FrameError,
  FrameType,
  MESSAGE_BYTES_MAX,
  MESSAGE_PARTS_MAX,
  MessageAssembler,
  messageFrames,
  PING_PAYLOAD_BYTES_MAX,
} from "./frame.ts";
import { ITEM_OVERHEAD_BYTES, ReceiveMemory } from "./receive-memory.ts";
import { controlMessage, dataMessage, readMessage } from "./streams.ts";

const types = fc.constantFrom(...Object.values(FrameType));
const channels = fc.integer({ min: 0, max: 0xffff_ffff });
const flags = fc.integer({ min: 0, max: 255 });
const payloads = fc.uint8Array({ maxLength: 2_000 });

test("encodes and decodes a frame unchanged, with any headroom", () => {
  fc.assert(
    fc.property(types, channels, flags, payloads, fc.integer({ min: 0, max: 14 }), (type, channel, flag, payload, headroom) => {
      const bytes = encodeFrame(type, channel, payload, flag, headroom);
      const frame = decodeFrame(bytes.subarray(headroom));
      assert.deepEqual({ ...frame, payload: [...frame.payload] }, { type, flags: flag, channel, payload: [...payload] });
    }),
  );
});

test("decodes any bytes to a valid frame or throws FrameError", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        const { type, payload } = decodeFrame(Buffer.from(bytes));
        assert.ok(type >= FrameType.OPEN && type <= FrameType.GOAWAY);
        assert.equal(payload.length, bytes.length - FRAME_HEADER_BYTES);
        assert.equal(bytes[2]! | bytes[3]!, 0);
      } catch (error) {
        assert.ok(error instanceof FrameError, String(error));
      }
    }),
    { numRuns: 2_000 },
  );
});

test("accepts a frame payload of the maximum size and rejects one more byte", () => {
  const largest = encodeFrame(FrameType.DATA, 1, Buffer.alloc(FRAME_PAYLOAD_BYTES_MAX));
  assert.equal(decodeFrame(largest).payload.length, FRAME_PAYLOAD_BYTES_MAX);
  assert.throws(() => encodeFrame(FrameType.DATA, 1, Buffer.alloc(FRAME_PAYLOAD_BYTES_MAX + 1)), FrameError);
  assert.throws(() => decodeFrame(Buffer.concat([largest, Buffer.alloc(1)])), FrameError);
});

test("reassembles messages from fragments of any size", () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 6 });
  const cuts = fc.infiniteStream(fc.integer({ min: 1, max: 100 }));
  fc.assert(
    fc.property(messages, cuts, (sent, cut) => {
      const assembler = new MessageAssembler();
      const received: number[][] = [];
      for (const message of sent) {
        let offset = 0;
        for (let whole: Uint8Array | undefined; whole === undefined;) {
          const end = Math.min(message.length, offset + cut.next().value!);
          const socket_buffer = encodeFrame(FrameType.DATA, 1, message.subarray(offset, end), end < message.length ? FLAG_MORE : 0);
          whole = assembler.push(decodeFrame(socket_buffer));
          if (whole !== undefined) received.push([...whole]);
          // The socket reuses its buffer.
          socket_buffer.fill(0xff);
          offset = end;
        }
      }
      assert.deepEqual(
        received,
        sent.map((message) => [...message]),
      );
    }),
  );
});

test("rejects an empty fragment and a message with too many fragments", () => {
  const dataOf = (bytes: number) => decodeFrame(encodeFrame(FrameType.DATA, 1, Buffer.alloc(bytes), FLAG_MORE));
  assert.throws(() => new MessageAssembler().push(dataOf(0)), FrameError);
  const assembler = new MessageAssembler();
  for (let i = 0; i < MESSAGE_PARTS_MAX; i += 1) assembler.push(dataOf(1));
  assert.throws(() => assembler.push(dataOf(1)), FrameError);
});

test("limits the receive memory of all channels of a link", () => {
  const memory = new ReceiveMemory({ bytes_max: 1_000 });
  const [first, second] = [new MessageAssembler({ memory }), new MessageAssembler({ memory })];
  const part = decodeFrame(encodeFrame(FrameType.DATA, 1, Buffer.alloc(10), FLAG_MORE));
  first.push(part);
  second.push(part);
  first.push(part);
  assert.equal(memory.bytes, 3 * (10 + ITEM_OVERHEAD_BYTES));
  assert.throws(() => second.push(part), FrameError);
  assert.equal(first.push({ ...part, flags: 0 })?.length, 30);
  second.clear();
  assert.equal(memory.bytes, 0);
});

test("rejects a ping with a long payload, which the reply would repeat", () => {
  decodeFrame(encodeFrame(FrameType.PING, 0, Buffer.alloc(PING_PAYLOAD_BYTES_MAX)));
  assert.throws(() => decodeFrame(encodeFrame(FrameType.PING, 0, Buffer.alloc(PING_PAYLOAD_BYTES_MAX + 1))), FrameError);
});

test("rejects an endless message at the size limit", () => {
  const assembler = new MessageAssembler();
  const part = decodeFrame(encodeFrame(FrameType.DATA, 1, Buffer.alloc(FRAME_PAYLOAD_BYTES_MAX), FLAG_MORE));
  for (let i = 0; i < MESSAGE_BYTES_MAX / FRAME_PAYLOAD_BYTES_MAX; i += 1) assert.equal(assembler.push(part), undefined);
  assert.throws(() => assembler.push(part), FrameError);
  assert.throws(() => new MessageAssembler({ bytes_max: 10 }).push(part), FrameError);
  assert.throws(() => messageFrames(1, Buffer.alloc(MESSAGE_BYTES_MAX + 1)), FrameError);
});

test("distinguishes data messages from control messages for any bytes", () => {
  for (const bytes of [Buffer.alloc(0), Buffer.from([1, 0, 255]), Buffer.from('{"type":"exit"}')])
    assert.deepEqual(Buffer.from(readMessage(dataMessage(bytes)).data!), bytes);
  assert.deepEqual(readMessage(controlMessage({ type: "resize", cols: 80 })), { control: { type: "resize", cols: 80 } });
  for (const broken of [[], [2, 1], [1], [1, 0x5b, 0x5d], [1, 0x31]])
    assert.throws(() => readMessage(Uint8Array.from(broken)), FrameError, String(broken));
});
