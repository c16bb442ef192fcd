import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { BufferGarbage } from "./buffer-garbage.ts";

const KIB = 1024;
const BUFFER_BYTES = 64 * KIB;
const BUFFERS = 64;

test("frees the buffers of forwarded data after so many bytes, and not before", { timeout: 60_000 }, async () => {
  const garbage = new BufferGarbage(BUFFERS * BUFFER_BYTES);
  const buffers = (): number => process.memoryUsage().arrayBuffers;
  garbage.count(BUFFERS * BUFFER_BYTES);
  const before = buffers();
  for (let i = 1; i < BUFFERS; i += 1) garbage.count(Buffer.allocUnsafeSlow(BUFFER_BYTES).length);
  assert.ok(buffers() - before >= (BUFFERS / 2) * BUFFER_BYTES, `${buffers() - before} bytes were kept`);
  garbage.count(BUFFER_BYTES);
  await until("the buffers to be freed", () => buffers() - before < (BUFFERS / 4) * BUFFER_BYTES);
});
