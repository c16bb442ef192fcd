import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { bytes, relative } from "./duration.ts";
import { scanFormat } from "./output.ts";
import { jsonText, line, plain, Styled, UNSAFE } from "./text.ts";
import { fieldsToObject, parseValue } from "./values.ts";
import { yamlText } from "./yaml-text.ts";

test("escapes control characters in terminal output and keeps other text", () => {
  assert.equal(plain("a\u001b[31mred\u001b]0;title\u0007"), "a\\x1b[31mred\\x1b]0;title\\x07");
  assert.equal(plain("two\r\nlines\u2028three\tand \u0085"), "two\\r\\nlines\\u{2028}three\\tand \\x85");
  assert.equal(plain("abc\u202egpj.exe\u2066\u200f"), "abc\\u{202e}gpj.exe\\u{2066}\\u{200f}");
  assert.equal(plain("\ud800 lone, tag \u{e0041}"), "\\u{d800} lone, tag \\u{e0041}");
  assert.equal(plain("größe 日本語 🤖 <b>"), "größe 日本語 🤖 <b>");
});

test("escapes values in an output line and keeps the line's colors", () => {
  assert.equal(line`${"\u001b[2J"} is ${new Styled("\u001b[32mgreen\u001b[39m")}, ${3}`, "\\x1b[2J is \u001b[32mgreen\u001b[39m, 3");
});

const hostile = {
  data: {
    "key\u001b[2J": ["two\nlines", "carriage\rreturn", "abc\u202egpj.exe", "c1 \u009b31m", "tag \u{e0041}", "tab\there"],
    plain: "größe 日本語",
    yes: "no",
    number: "1e3",
    time: "2030-01-01",
    empty: "",
    nothing: null,
  },
};

test("JSON and YAML contain the same values and no control characters", () => {
  for (const [text, read] of [
    [jsonText(hostile), JSON.parse],
    [jsonText(hostile, 2), JSON.parse],
    [yamlText(hostile), (yaml: string): unknown => parse(yaml)],
  ] as const) {
    assert.equal(text.replaceAll("\n", "").search(UNSAFE), -1, text);
    assert.deepEqual(read(text), hostile);
  }
});

test("writes a multi-line text on one line of YAML", () => {
  const text = yamlText({ name: "two\nlines of some length that a folded scalar would break into several ones, were it let" });
  assert.equal(text.trimEnd().split("\n").length, 1);
});

test("formats times relative to now", () => {
  const now = new Date("2030-01-02T00:00:00Z");
  assert.equal(relative("2030-01-01T23:59:58.500Z", now), "just now");
  assert.equal(relative("2030-01-01T23:57:00.000Z", now), "3 min ago");
  assert.equal(relative("2030-01-02T05:00:00.000Z", now), "in 5 h");
  assert.equal(relative("2029-12-01T00:00:00.000Z", now), "32 d ago");
  assert.equal(relative(null, now), "never");
});

test("formats sizes in a suitable unit", () => {
  assert.deepEqual([0, 999, 1000, 123_456, 4_200_000_000].map(bytes), ["0 B", "999 B", "1.0 kB", "123 kB", "4.2 GB"]);
});

test("determines the output format of errors from unparsed arguments", () => {
  assert.equal(scanFormat(["robots", "list"]), undefined);
  assert.equal(scanFormat(["robots", "list", "--json"]), "json");
  assert.equal(scanFormat(["-o", "yaml", "robots"]), "yaml");
  assert.equal(scanFormat(["-ojson"]), "json");
  assert.equal(scanFormat(["--output=wide"]), "wide");
  assert.equal(scanFormat(["-o", "xml"]), undefined);
  assert.equal(scanFormat(["configs", "set", "k", "--", "--json"]), undefined);
});

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

test("rejects a number such as 1e999, which JSON would encode as null", () => {
  assert.throws(() => parseValue("1e999"), /too large/);
});

test("builds objects and arrays from the fields of rf api", async () => {
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
