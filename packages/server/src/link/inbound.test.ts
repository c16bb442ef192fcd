import assert from "node:assert/strict";
import { test } from "node:test";
import { LINK_PROTOCOLS } from "@roamfleet/protocol/link";
import { jsonOfRecords, MESSAGE_VALUES_MAX, MessageError, parseMessage } from "./inbound.ts";

const hello = (changes: Record<string, unknown>): Buffer =>
  Buffer.from(
    JSON.stringify({
      type: "hello",
      protocols: [...LINK_PROTOCOLS],
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

test("refuses numbers outside the exact integer range, which could break a batch with other robots' data", () => {
  assert.equal(parseMessage(hello({ generation: 2 ** 52 })).type, "hello");
  for (const generation of [Number.MAX_SAFE_INTEGER, 1e300, -1, 0.5])
    assert.throws(() => parseMessage(hello({ generation })), MessageError);
  const report = (seq: number): Buffer =>
    Buffer.from(JSON.stringify({ type: "report", seq, at: "", body: { kind: "observed", generation: 0 } }));
  assert.equal(parseMessage(report(1)).type, "report");
  for (const seq of [0, 2 ** 53, 1e300]) assert.throws(() => parseMessage(report(seq)), MessageError);
});

const record = (message: string): string =>
  `{"seq":1,"at":"2030-01-01T00:00:00.000Z","level":"info","source":"s","message":"${message}","fields":{}}`;

test("keeps the original JSON of log records if the message can be stored unchanged", () => {
  const read = (text: string) => {
    const parsed = parseMessage(Buffer.from(text));
    assert.equal(parsed.type, "logs");
    const json = jsonOfRecords(parsed.records);
    if (json !== undefined) assert.deepEqual(JSON.parse(Buffer.from(json).toString("utf8")), parsed.records);
    return { records: parsed.records, json: json && Buffer.from(json).toString("utf8") };
  };
  const flush = `[${record("é")}, ${record("]}")}]`;
  assert.equal(read(`{"type":"logs","records":${flush}}`).json, flush);
  const others = [
    `{"records":${flush},"type":"logs"}`,
    ` {"type":"logs","records":${flush}}`,
    `{"type":"logs","records":[${record("first")}],"records":${flush}}`,
    `{"type":"logs","records":${flush} }`,
  ];
  for (const text of others.slice(0, 3)) assert.deepEqual(read(text), { records: JSON.parse(flush), json: undefined }, text);
  assert.equal(read(others[3] ?? "").json, `${flush} `);
  const escaped = read(`{"type":"logs","records":[${record("a\\u0000b\\ud800")}]}`);
  assert.equal(escaped.json, undefined);
  assert.equal(escaped.records[0]?.message, "a\ufffdb\ufffd");
  for (const text of [
    `{"type":"logs","records":${flush}`,
    `{"type":"logs","records":{}}`,
    `{"type":"logs","records":1}`,
    '{"type":"logs","records":}',
  ])
    assert.throws(() => parseMessage(Buffer.from(text)), MessageError, text);
});

test("does not count separators inside texts as values of a message", () => {
  const logs = (text: string, fields: string): Buffer =>
    Buffer.from(
      `{"type":"logs","records":[${Array.from({ length: 16 }, () => record(text)).join()},${record("").replace('"fields":{}', `"fields":${fields}`)}]}`,
    );
  for (const text of ["0,".repeat(8_000), `\\"${"[{,".repeat(5_000)}\\\\`]) assert.equal(parseMessage(logs(text, "{}")).type, "logs");
  const values = `{"v":[${"0,".repeat(MESSAGE_VALUES_MAX)}0]}`;
  for (const text of ["", '\\"', "\\\\", '\\\\\\"'])
    assert.throws(() => parseMessage(logs(text, values)), new MessageError(`message has more than ${MESSAGE_VALUES_MAX} values`), text);
});
