import assert from "node:assert/strict";
import { test } from "node:test";
import { fieldsToObject, parseValue } from "./values.ts";

test("parses a value as JSON, otherwise as text", () => {
  const values: [string, unknown][] = [
    ["1.5", 1.5],
    ["true", true],
    ["null", null],
    ['"1"', "1"],
    ['{"a":[1]}', { a: [1] }],
    [" 2 ", 2],
    ["hello", "hello"],
    ["{a:1}", "{a:1}"],
    ["", ""],
    ["01", "01"],
  ];
  for (const [text, value] of values) assert.deepEqual(parseValue(text), value, text);
});

test("rejects a number that would be sent as null", () => {
  assert.throws(() => parseValue("1e999"), /too large/);
});

test("builds objects and arrays from fields", async () => {
  const typed = (text: string): { text: string; typed: boolean } => ({ text, typed: true });
  assert.deepEqual(
    await fieldsToObject([
      { text: "a=1", typed: false },
      typed("b=1"),
      typed("c[d]=x=y"),
      typed("c[e][]=1"),
      typed("c[e][]=two"),
      typed("__proto__=1"),
    ]),
    {
      a: "1",
      b: 1,
      c: { d: "x=y", e: [1, "two"] },
      ["__proto__"]: 1,
    },
  );
  for (const wrong of [["novalue"], ["=x"], ["a[=1"], ["a=1", "a[b]=2"], ["a[]=1", "a[b]=2"]]) {
    await assert.rejects(fieldsToObject(wrong.map(typed)), { exit_code: 2 }, wrong.join());
  }
});
