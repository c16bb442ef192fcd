// Separate process: it measures its memory.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { MinorGc } from "./minor-gc.ts";

const BUFFER_BYTES = 64 * 1024;
const BUFFERS = 64;

test("collects no garbage until the received bytes reach the threshold, then frees their buffers", { timeout: 60_000 }, async () => {
  const minor_gc = new MinorGc(BUFFERS * BUFFER_BYTES);
  const buffers = (): number => process.memoryUsage().arrayBuffers;
  minor_gc.received(BUFFERS * BUFFER_BYTES);
  const before = buffers();
  for (let i = 1; i < BUFFERS; i += 1) minor_gc.received(Buffer.allocUnsafeSlow(BUFFER_BYTES).length);
  assert.ok(buffers() - before >= (BUFFERS / 2) * BUFFER_BYTES, `${buffers() - before} bytes were kept`);
  minor_gc.received(BUFFER_BYTES);
  // V8 frees the buffers on another thread, so they may still be counted for a moment.
  while (buffers() - before >= (BUFFERS / 4) * BUFFER_BYTES) await setImmediate();
  assert.equal(globalThis.gc, undefined);
});
