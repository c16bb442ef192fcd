import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameError } from "./frame.ts";
import { controlMessage, dataMessage, readMessage } from "./tagged.ts";

test("distinguishes data from control for any bytes", () => {
  for (const bytes of [Buffer.alloc(0), Buffer.from([1, 0, 255]), Buffer.from('{"type":"exit"}')])
    assert.deepEqual(Buffer.from(readMessage(dataMessage(bytes)).data!), bytes);
  assert.deepEqual(readMessage(controlMessage({ type: "resize", cols: 80 })), { control: { type: "resize", cols: 80 } });
  for (const broken of [[], [2, 1], [1], [1, 0x5b, 0x5d], [1, 0x31]])
    assert.throws(() => readMessage(Uint8Array.from(broken)), FrameError, String(broken));
});
