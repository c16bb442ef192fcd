import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { dateText, jsonText, readJson, sentence, shellLine, shellWord, withLocalTimes } from "./format.ts";

test("parses formatted JSON back to the original value", () => {
  for (const value of [1.5, "a", null, false, [1, { a: "b" }]]) assert.deepEqual(readJson(jsonText(value)), { value });
});

test("returns the line and column of a JSON syntax error", () => {
  assert.deepEqual(readJson('{\n  "a": 1,\n  b\n}'), { problem: "Invalid JSON: line 3, column 3" });
  assert.deepEqual(readJson('{"a":'), { problem: "Invalid JSON: line 1, column 6" });
  assert.deepEqual(readJson(" "), { problem: "Enter a JSON value." });
});

test("rejects a JSON number that is too large", () => {
  assert.deepEqual(readJson("[1e999]"), { problem: "A number is too large." });
});

test("replaces each UTC time in a text by the local time", () => {
  const [at, later] = ["2030-01-02T03:04:05.678Z", "2030-01-02T04:04:05Z"];
  assert.equal(
    withLocalTimes(`scheduled for ${at}, expires at ${later}.`),
    `scheduled for ${dateText(at)}, expires at ${dateText(later)}.`,
  );
  assert.equal(withLocalTimes("release 2030-01-02T"), "release 2030-01-02T");
});

test("does not quote plain words in a shell command", () => {
  assert.equal(shellLine("rf", "fleets", "update", "fleet_1", false, "--follow", undefined, "on"), "rf fleets update fleet_1 --follow on");
});

test("a shell parses a quoted text back to the original", () => {
  for (const text of ["", "two words", "it's", "$(reboot)", "`id`", "a;b|c&d", 'say "hi"', "back\\slash", "*", "line\nfeed", "שלום"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${shellWord(text)}`], { encoding: "utf8" }), text);
  }
});

test("formats a message as a sentence without changing an identifier", () => {
  assert.equal(sentence(" the database does not answer"), "The database does not answer.");
  assert.equal(sentence("it's full!"), "It's full!");
  assert.equal(sentence("speed_limit is a secret"), "speed_limit is a secret.");
  assert.equal(sentence("", "No reason."), "No reason.");
});
