import assert from "node:assert/strict";
import { test } from "node:test";
import { type Finding, parseSource } from "./source.ts";
import { findRuledOutWords } from "./words.ts";

const found = (findings: readonly Finding[]): string[] => findings.map(({ line, message }) => `${line}: ${message.split(":")[0]}`);
const check = (text: string, file = "packages/cli/src/x.tsx"): string[] => found(findRuledOutWords([parseSource(file, text)]));

test("finds ruled-out words in comments, strings, templates, patterns and JSX", () => {
  assert.deepEqual(check("/** Nobody reads it. */\n// It goes on.\nexport {};\n"), ['1: "nobody"', '2: "goes on"']);
  assert.deepEqual(check('export const a = ["made anew", `${1} tells`, /is well/];\nexport const b = <p>Whoever asks</p>;\n'), [
    '1: "anew"',
    '1: "tells"',
    '1: "is well"',
    '2: "whoever"',
  ]);
});

test("finds a ruled-out phrase that continues on the next line of a comment", () => {
  assert.deepEqual(check("/**\n * It goes\n * on.\n */\nexport {};\n"), ['2: "goes on"']);
  assert.deepEqual(check("// It is\n// told.\nexport {};\n"), ['1: "is told"']);
});

test("ignores code, parts of words and folders that are not yet clean", () => {
  assert.deepEqual(check('export const nobody = "anewly"; // whomever\n'), []);
  assert.deepEqual(check("// Nobody.\nexport {};\n", "packages/unclean/src/x.ts"), []);
});
