import assert from "node:assert/strict";
import { test } from "node:test";
import { beginningOf, LINE_CHARACTERS_MAX, piecesOf } from "./log-text.ts";

const shown = (message: string, options?: Parameters<typeof piecesOf>[1]): string =>
  piecesOf(message, options)
    .map(({ text }) => text)
    .join("");

test("colours are left out, and what else a terminal would obey is a sign", () => {
  assert.equal(shown("\u001b[31mred\u001b[0m"), "red");
  assert.equal(shown("\u001b[2J\u0007bell"), "␛[2J␇bell");
  assert.equal(shown("a\u007fb\u009bc"), "a␡b⟨U+009B⟩c");
});

test("marks that turn or hide text are signs", () => {
  assert.equal(shown("a\u202eb"), "a⟨U+202E⟩b");
  assert.equal(shown("a\u200bb\ufeff"), "a⟨U+200B⟩b⟨U+FEFF⟩");
});

test("a message of several lines is one line where there is one line for it", () => {
  assert.equal(shown("a\r\nb\nc"), "a\nb\nc");
  assert.equal(shown("a\r\nb", { lines: false }), "a⏎ b");
});

test("what is searched for is found in any case, and is no pattern", () => {
  assert.deepEqual(
    piecesOf("Timeout: a.b TIMEOUT", { wanted: "timeout" }).filter(({ kind }) => kind === "hit"),
    [
      { text: "Timeout", kind: "hit" },
      { text: "TIMEOUT", kind: "hit" },
    ],
  );
  assert.equal(
    piecesOf("axb", { wanted: "a.b" }).some(({ kind }) => kind === "hit"),
    false,
  );
  assert.equal(shown("<b>(x", { wanted: "(" }), "<b>(x");
});

test("a long message is cut between two characters", () => {
  const { text, left_out } = beginningOf("x".repeat(LINE_CHARACTERS_MAX - 1) + "😀😀");
  assert.equal(text, "x".repeat(LINE_CHARACTERS_MAX - 1));
  assert.equal(left_out, 4);
  assert.deepEqual(beginningOf("short"), { text: "short", left_out: 0 });
});
