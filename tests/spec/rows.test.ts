import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";

const FOLDER = import.meta.dirname;
const linesOf = (name: string): string[] =>
  readFileSync(path.join(FOLDER, name), "utf8")
    .split("\n")
    .filter((line) => line !== "");

/** Names of the tests in this folder, as in the source. */
function testNames(): string[] {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith(".test.ts"));
  return files.flatMap((name) =>
    [...readFileSync(path.join(FOLDER, name), "utf8").matchAll(/\btest\(\s*"((?:[^"\\]|\\.)+)"/g)].map(([, found]) => found ?? ""),
  );
}

const namesRow = (name: string, row: string): boolean => name.startsWith(row) && !/[\w/{-]/.test(name.charAt(row.length));

test("every row of the specification's tables is named by a test", () => {
  const names = testNames();
  const rows = linesOf("rows.txt");
  assert.equal(new Set(rows).size, rows.length, "no row is listed twice");
  assert.deepEqual(
    rows.filter((row) => !names.some((name) => namesRow(name, row))),
    [],
  );
});

test("every row in pending.txt is in rows.txt, and its test names the temporary response", () => {
  const names = testNames();
  const rows = new Set(linesOf("rows.txt"));
  for (const row of linesOf("pending.txt")) {
    assert.ok(rows.has(row), `${row} is no row`);
    const answer = row.startsWith("WebSocket") ? "4410" : "incompatible";
    assert.ok(
      names.some((name) => namesRow(name, row) && name.includes(answer)),
      `no test of ${row} names ${answer}`,
    );
  }
  const says = names.filter((name) => / 4410| incompatible/.test(name) && [...rows].some((row) => namesRow(name, row)));
  assert.equal(says.length, linesOf("pending.txt").length, `each such test has its line in pending.txt: ${says.join("; ")}`);
});
