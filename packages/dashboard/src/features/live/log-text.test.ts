import assert from "node:assert/strict";
import { test } from "node:test";
import { readLogSearch, timeOf } from "../../search.ts";
import { beginningOf, filterOf, LINE_CHARACTERS_MAX, logCommand, piecesOf } from "./log-text.ts";

const shown = (message: string, options?: Parameters<typeof piecesOf>[1]): string =>
  piecesOf(message, options)
    .map(({ text }) => text)
    .join("");

test("removes colors from a log message and shows other control characters as symbols", () => {
  assert.equal(shown("\u001b[31mred\u001b[0m"), "red");
  assert.equal(shown("\u001b[2J\u0007bell"), "␛[2J␇bell");
  assert.equal(shown("a\u007fb\u009bc"), "a␡b⟨U+009B⟩c");
});

test("shows bidirectional and invisible characters of a log message as symbols", () => {
  assert.equal(shown("a\u202eb"), "a⟨U+202E⟩b");
  assert.equal(shown("a\u200bb\ufeff"), "a⟨U+200B⟩b⟨U+FEFF⟩");
});

test("shows a multi-line log message on one line in the list", () => {
  assert.equal(shown("a\r\nb\nc"), "a\nb\nc");
  assert.equal(shown("a\r\nb", { lines: false }), "a⏎ b");
});

test("finds search text in a log message literally and case-insensitively", () => {
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

test("truncates a long log message without splitting a character", () => {
  const { text, left_out } = beginningOf("x".repeat(LINE_CHARACTERS_MAX - 1) + "😀😀");
  assert.equal(text, "x".repeat(LINE_CHARACTERS_MAX - 1));
  assert.equal(left_out, 4);
  assert.deepEqual(beginningOf("short"), { text: "short", left_out: 0 });
});

const NOW = Date.parse("2030-01-01T12:00:00Z");

test("the log page drops invalid URL parameters and reads a number as text", () => {
  assert.deepEqual(readLogSearch({ level: "loud", source: "", q: 404, since: "soon", until: "2030-01-01", wrap: true }), {
    q: "404",
    until: "2030-01-01",
    wrap: true,
  });
  assert.deepEqual(readLogSearch({ q: "x".repeat(201) }), {});
});

test("converts a duration to a time before now", () => {
  assert.equal(timeOf("2h", NOW), "2030-01-01T10:00:00.000Z");
  assert.equal(timeOf("2030-01-01T08:00:00+01:00", NOW), "2030-01-01T07:00:00.000Z");
  assert.equal(timeOf("2w", NOW), undefined);
  assert.deepEqual(filterOf({ since: "10m", level: "warn", wrap: true }, NOW), { level: "warn", since: "2030-01-01T11:50:00.000Z" });
});

test("the rf logs command quotes the page's filters and follows without an end time", () => {
  assert.equal(
    logCommand("robots", "rob_1", { level: "warn", q: "it's $HOME" }),
    "rf robots logs rob_1 --level warn --grep 'it'\\''s $HOME' --follow",
  );
  assert.equal(logCommand("fleets", "fleet_1", { since: "2h", until: "1h" }), "rf fleets logs fleet_1 --since 2h --until 1h");
});
