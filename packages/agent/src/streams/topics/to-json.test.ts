import assert from "node:assert/strict";
import { test } from "node:test";
import { UndecodedMessage } from "../../ros/adapter.ts";
import {
  FULL_BYTES_MAX,
  parseFieldPath,
  pickField,
  showMessage,
  SUMMARY_ARRAY_MAX,
  SUMMARY_TEXT_BYTES_MAX,
  SUMMARY_TEXT_MAX,
} from "./to-json.ts";
import { readTopicsRequest } from "./index.ts";

const summary = (message: unknown): unknown => showMessage(message, false).message;
const times = (count: number, value: unknown): unknown[] => Array.from({ length: count }, () => value);
const full = (message: unknown): unknown => showMessage(message, true).message;

test("encodes ROS numbers that JSON cannot represent exactly as strings", () => {
  const message = {
    small: 7n,
    large: 2n ** 53n,
    low: -(2n ** 63n),
    nothing: NaN,
    far: Float32Array.of(0.5, Infinity, -Infinity),
    on: true,
    none: undefined,
  };
  for (const show of [summary, full])
    assert.deepEqual(show(message), {
      small: 7,
      large: "9007199254740992",
      low: "-9223372036854775808",
      nothing: "NaN",
      far: [0.5, "Infinity", "-Infinity"],
      on: true,
      none: null,
    });
  assert.deepEqual(full(BigUint64Array.of(1n, 2n ** 64n - 1n)), [1, "18446744073709551615"]);
});

test("summarizes long arrays, strings and bytes by their length and first elements", () => {
  const image = new Uint8Array(300_000).map((_, i) => i);
  assert.deepEqual(summary({ format: "jpeg", data: image }), {
    format: "jpeg",
    data: { length: 300_000, first: [0, 1, 2, 3, 4, 5, 6, 7] },
  });
  assert.deepEqual(summary(new Float64Array(36).fill(1)), times(36, 1));
  assert.deepEqual(summary(times(SUMMARY_ARRAY_MAX + 1, { x: 1 })), {
    length: SUMMARY_ARRAY_MAX + 1,
    first: times(8, { x: 1 }),
  });
  assert.equal(summary("a".repeat(SUMMARY_TEXT_MAX)), "a".repeat(SUMMARY_TEXT_MAX));
  assert.deepEqual(summary("a".repeat(2_000)), { length: 2_000, first: "a".repeat(256) });
  assert.deepEqual(summary(Uint8Array.of(1, 2)), [1, 2]);
});

test("limits the total size of a summary with nested arrays", () => {
  const deep = times(64, times(64, times(64, times(64, "x".repeat(1_000)))));
  assert.ok(JSON.stringify(summary(deep)).length < 6 * 1024 * 1024);
  let nested: unknown = 1;
  for (let i = 0; i < 10_000; i += 1) nested = { a: nested };
  assert.ok(JSON.stringify(summary(nested)).length < 1_000);
});

test("shows a full topic message up to a size limit and a summary beyond the limit", () => {
  const points = Float32Array.from({ length: 1_000 }, (_, i) => i);
  assert.deepEqual(full(points), Array.from(points));
  const image = new Uint8Array(300_000).map((_, i) => i);
  assert.deepEqual(full({ data: image }), { data: { length: 300_000, base64: Buffer.from(image).toString("base64") } });
  for (const large of [new Uint8Array(FULL_BYTES_MAX), new Float64Array(FULL_BYTES_MAX), "x".repeat(FULL_BYTES_MAX)]) {
    const { message, note } = showMessage({ large }, true);
    assert.equal((message as { large: { length: number } }).large.length, large.length);
    assert.match(note ?? "", /summarized/);
  }
});

test("limits the total length of all strings in a summary", () => {
  const texts = Array.from({ length: 60 }, () => Array.from({ length: 60 }, () => "ä".repeat(1_000)));
  const bytes = Buffer.byteLength(JSON.stringify(summary(texts)));
  assert.ok(bytes < 2 * SUMMARY_TEXT_BYTES_MAX, `${bytes} bytes`);
});

test("shows the length and first bytes of a message that cannot be decoded, and why not", () => {
  const undecoded = new UndecodedMessage(
    Uint8Array.from({ length: 100 }, (_, i) => i),
    "no definition of a/msg/B",
  );
  assert.deepEqual(summary(undecoded), { undecoded: "no definition of a/msg/B", length: 100, first: [0, 1, 2, 3, 4, 5, 6, 7] });
  assert.equal(Buffer.from((full(undecoded) as { base64: string }).base64, "base64").length, 100);
});

test("shows a message field named __proto__", () => {
  const message: unknown = JSON.parse('{"__proto__":{"polluted":1}}');
  assert.equal(JSON.stringify(summary(message)), '{"__proto__":{"polluted":1}}');
});

test("a field path selects a part of a message", () => {
  const message = { a: { b: [{ c: 5 }, { c: 6 }] }, ranges: Float32Array.of(1, 2) };
  const pick = (text: string): unknown => pickField(message, parseFieldPath(text)!);
  assert.deepEqual(
    [pick("a.b[1].c"), pick("ranges[0]"), pick("a.b[9].c"), pick("")],
    [{ value: 6 }, { value: 1 }, { value: null }, { value: message }],
  );
  assert.deepEqual(pick("a.x"), { missing: "a.x (known fields: b)" });
  assert.deepEqual(pick("toString"), { missing: "toString (known fields: a, ranges)" });
  assert.deepEqual(pick("a[0]"), { missing: "a[0]: this is not an array" });
  assert.deepEqual(pick("ranges.length"), { missing: "ranges.length: its parent is not an object" });
  for (const wrong of [".a", "a.", "a..b", "a[", "a[x]", "a b", "a[1]b", "a[-1]"]) assert.equal(parseFieldPath(wrong), undefined, wrong);
});

test("validates topic stream requests from the server", () => {
  assert.deepEqual(readTopicsRequest({ op: "echo", topic: "chatter", type: "std_msgs/String", field: "a.b", rate: 2 }), {
    op: "echo",
    topic: "/chatter",
    type: "std_msgs/String",
    rate: 2,
    field: ["a", "b"],
    full: false,
  });
  assert.deepEqual(readTopicsRequest({ op: "list" }), { op: "list", follow: false });
  for (const wrong of [null, {}, { op: "x" }, ...["", "/", "a b", "a\n", "x".repeat(300), 5].map((topic) => ({ op: "echo", topic }))])
    assert.equal(typeof readTopicsRequest(wrong), "string", JSON.stringify(wrong));
  for (const more of [
    { rate: 0 },
    { rate: -1 },
    { rate: "5" },
    { rate: Infinity },
    { field: "a..b" },
    { field: 3 },
    { full: "yes" },
    { type: 1 },
  ])
    assert.equal(typeof readTopicsRequest({ op: "echo", topic: "/a", ...more }), "string", JSON.stringify(more));
});
