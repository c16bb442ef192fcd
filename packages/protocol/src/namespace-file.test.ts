import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeFileName, encodeFileName } from "./namespace-file.ts";

test("encodes any text as a visible file name without path separators, and decodes it back", () => {
  for (const text of [
    "default",
    "a.b",
    "a/b",
    "..",
    ".",
    ".hidden",
    "../../etc/passwd",
    "größe 1",
    "100%",
    "%41",
    "C:\\x",
    "日本",
    "a\nb",
    "",
  ]) {
    const name = encodeFileName(text);
    assert.match(name, /^[A-Za-z0-9_~%-][A-Za-z0-9_.~%-]*$/, text);
    assert.equal(decodeFileName(name), text);
  }
  assert.equal(encodeFileName("a.b"), "a.b");
  assert.equal(encodeFileName(".."), "%2E.");
});

test("decoding returns undefined for a file name that encoding cannot produce", () => {
  for (const name of ["", "..", ".x", "%41", "%2e.", "a b", "%zz", "%FF", "a/b"]) assert.equal(decodeFileName(name), undefined, name);
});
