import assert from "node:assert/strict";
import { test } from "node:test";
import { EscapeFilter } from "./local-terminal.ts";

/** Returns the bytes sent for these chunks as text, and the escapes that `rf` handles locally. */
function typed(...pieces: string[]): [string, string[]] {
  const filter = new EscapeFilter();
  const taken = pieces.map((piece) => filter.take(Buffer.from(piece)));
  return [taken.map(({ bytes }) => Buffer.from(bytes).toString()).join(""), taken.flatMap(({ escapes }) => escapes)];
}

test("typing ~. at the beginning of a line disconnects the shell and drops further input", () => {
  assert.deepEqual(typed("~.more"), ["", ["disconnect"]]);
  assert.deepEqual(typed("ls\r~.more"), ["ls\r", ["disconnect"]]);
  assert.deepEqual(typed("ls\r", "~", "."), ["ls\r", ["disconnect"]]);
});

test("a shell sends ~ unchanged unless it begins an escape at the start of a line", () => {
  assert.deepEqual(typed("cd ~.\r"), ["cd ~.\r", []]);
  assert.deepEqual(typed("~/bin\r~root\r"), ["~/bin\r~root\r", []]);
  assert.deepEqual(typed("~~.\r"), ["~.\r", []]);
  assert.deepEqual(typed("~?x"), ["x", ["help"]]);
});

test("the escape filter of a shell passes all other bytes unchanged", () => {
  const all = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
  assert.deepEqual(Buffer.from(new EscapeFilter().take(all).bytes), all);
});
