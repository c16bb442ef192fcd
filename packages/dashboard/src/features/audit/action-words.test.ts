import assert from "node:assert/strict";
import { test } from "node:test";
import { actionWords } from "./action-words.ts";

test("converts action names to words", () => {
  assert.equal(actionWords("getShellRecording"), "Get shell recording");
  assert.equal(actionWords("stream.opened"), "Stream opened");
  assert.equal(actionWords("rollBackConfig"), "Roll back config");
  assert.equal(actionWords(""), "");
});
