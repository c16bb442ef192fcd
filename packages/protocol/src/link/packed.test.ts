import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";
import { FrameError } from "./frame.ts";
import { packMessage, unpackMessage } from "./packed.ts";

const record = (i: number): string =>
  `{"seq":${i},"at":"2026-01-01T00:00:00.${100 + (i % 900)}Z","level":"info","source":"main","message":"cycle ${i} took ${i % 97} ms","fields":{}}`;
const batchOf = (count: number): Buffer =>
  Buffer.from(`{"type":"logs","records":[${Array.from({ length: count }, (_, i) => record(i)).join(",")}]}`);

test("compresses messages of robots and restores them exactly", () => {
  for (const [count, ratio_max] of [
    [3, 0.5],
    [100, 0.2],
    [1_000, 0.25],
  ] as const) {
    const message = batchOf(count);
    const packed = packMessage(message);
    assert.ok(packed !== undefined && packed.length < message.length * ratio_max, `${count}: ${packed?.length} of ${message.length}`);
    assert.deepEqual(unpackMessage(packed, message.length), message);
  }
});

test("compresses only messages that are long and become shorter", () => {
  assert.equal(packMessage(batchOf(1).subarray(0, 100)), undefined);
  assert.equal(packMessage(randomBytes(4_096)), undefined);
});

test("refuses a compressed message that is damaged, truncated or too long", () => {
  const packed = packMessage(batchOf(100))!;
  assert.throws(() => unpackMessage(packed, batchOf(100).length - 1), FrameError);
  assert.throws(() => unpackMessage(packed.subarray(0, 20), 1e6), FrameError);
  assert.throws(() => unpackMessage(randomBytes(100).fill(0xff, 0, 1), 1e6), FrameError);
  const bomb = deflateRawSync(Buffer.alloc(64 * 1024 * 1024));
  const before = process.memoryUsage().external;
  assert.throws(() => unpackMessage(bomb, 1024 * 1024), /over 1048576 bytes/);
  assert.ok(process.memoryUsage().external - before < 16 * 1024 * 1024);
});

// Other agents and servers use the same dictionary. A change would make their messages unreadable: add a feature with another name instead.
test("the preset dictionary of compressed messages does not change", () => {
  const message = Buffer.from(
    '{"type":"logs","records":[{"seq":1,"at":"2026-01-01T00:00:00.000Z","level":"info","source":"main","message":"'.repeat(3),
  );
  assert.equal(
    createHash("sha256")
      .update(unpackMessage(Buffer.from(PACKED_ONCE, "base64"), 1e4))
      .digest("hex"),
    createHash("sha256").update(message).digest("hex"),
  );
});
const PACKED_ONCE = "G7WMKpYBAA==";
