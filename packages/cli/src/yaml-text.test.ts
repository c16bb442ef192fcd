import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "yaml";
import { jsonText, UNSAFE } from "./text.ts";
import { yamlText } from "./yaml-text.ts";

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
