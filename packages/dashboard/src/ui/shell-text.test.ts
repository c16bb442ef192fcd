import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { shellLine, shellWord } from "./shell-text.ts";

test("does not quote plain words", () => {
  assert.equal(shellLine("rf", "fleets", "update", "fleet_1", false, "--follow", undefined, "on"), "rf fleets update fleet_1 --follow on");
});

test("a shell parses a quoted text back to the original", () => {
  for (const text of ["", "two words", "it's", "$(reboot)", "`id`", "a;b|c&d", 'say "hi"', "back\\slash", "*", "line\nfeed", "שלום"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${shellWord(text)}`], { encoding: "utf8" }), text);
  }
});
