import assert from "node:assert/strict";
import { test } from "node:test";
import { beginningOf, LINE_CHARACTERS_MAX, piecesOf } from "./log-text.ts";

const shown = (message: string, options?: Parameters<typeof piecesOf>[1]): string =>
  piecesOf(message, options)
    .map(({ text }) => text)
    .join("");

test("removes colors and shows other control characters as symbols", () => {
  assert.equal(shown("\u001b[31mred\u001b[0m"), "red");
  assert.equal(shown("\u001b[2J\u0007bell"), "␛[2J␇bell");
  assert.equal(shown("a\u007fb\u009bc"), "a␡b⟨U+009B⟩c");
});

test("shows bidirectional and invisible characters as symbols", () => {
  assert.equal(shown("a\u202eb"), "a⟨U+202E⟩b");
  assert.equal(shown("a\u200bb\ufeff"), "a⟨U+200B⟩b⟨U+FEFF⟩");
});

test("shows a multi-line message on one line in the list", () => {
  assert.equal(shown("a\r\nb\nc"), "a\nb\nc");
  assert.equal(shown("a\r\nb", { lines: false }), "a⏎ b");
});

test("finds the search text case-insensitively and not as a pattern", () => {
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

test("cuts a long message between characters", () => {
  const { text, left_out } = beginningOf("x".repeat(LINE_CHARACTERS_MAX - 1) + "😀😀");
  assert.equal(text, "x".repeat(LINE_CHARACTERS_MAX - 1));
  assert.equal(left_out, 4);
  assert.deepEqual(beginningOf("short"), { text: "short", left_out: 0 });
});
