import assert from "node:assert/strict";
import { test } from "node:test";
import { line, plain, Styled } from "./text.ts";

test("escapes control characters and keeps text", () => {
  assert.equal(plain("a\u001b[31mred\u001b]0;title\u0007"), "a\\x1b[31mred\\x1b]0;title\\x07");
  assert.equal(plain("two\r\nlines\u2028three\tand \u0085"), "two\\r\\nlines\\u{2028}three\\tand \\x85");
  assert.equal(plain("abc\u202egpj.exe\u2066\u200f"), "abc\\u{202e}gpj.exe\\u{2066}\\u{200f}");
  assert.equal(plain("\ud800 lone, tag \u{e0041}"), "\\u{d800} lone, tag \\u{e0041}");
  assert.equal(plain("größe 日本語 🤖 <b>"), "größe 日本語 🤖 <b>");
});

test("escapes values in a line and keeps the line's colors", () => {
  assert.equal(line`${"\u001b[2J"} is ${new Styled("\u001b[32mgreen\u001b[39m")}, ${3}`, "\\x1b[2J is \u001b[32mgreen\u001b[39m, 3");
});
