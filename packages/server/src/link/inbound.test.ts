import assert from "node:assert/strict";
import { test } from "node:test";
import { MessageError, parseMessage } from "./inbound.ts";

const hello = (changes: Record<string, unknown>): Buffer =>
  Buffer.from(
    JSON.stringify({
      type: "hello",
      protocols: [1],
      robot_id: "rob_1",
      signature: "",
      boot_id: "b",
      run_id: "r",
      outbox_id: "o",
      agent_version: "0",
      platform: {},
      kinds: [],
      streams: [],
      generation: 0,
      ...changes,
    }),
  );

test("numbers that could not be counted on exactly are refused: one robot's would break what is done for many at once", () => {
  assert.equal(parseMessage(hello({ generation: 2 ** 52 })).type, "hello");
  for (const generation of [Number.MAX_SAFE_INTEGER, 1e300, -1, 0.5])
    assert.throws(() => parseMessage(hello({ generation })), MessageError);
  const report = (seq: number): Buffer =>
    Buffer.from(JSON.stringify({ type: "report", seq, at: "", body: { kind: "observed", generation: 0 } }));
  assert.equal(parseMessage(report(1)).type, "report");
  for (const seq of [0, 2 ** 53, 1e300]) assert.throws(() => parseMessage(report(seq)), MessageError);
});
