import assert from "node:assert/strict";
import { test } from "node:test";
import { readOptions } from "./options.ts";
import type { Row } from "./row.ts";

const row = (name: string, more: Partial<Row> = {}): Row => ({ name, area: "api", about: name, run: () => Promise.resolve([]), ...more });
const ALL = [row("a"), row("b"), row("slow", { only_full: true })];
const namesOf = (...args: string[]): string[] => readOptions(args, ALL).rows.map(({ name }) => name);

test("measures slow rows only if --only names them or --full is given", () => {
  assert.deepEqual(namesOf(), ["a", "b"]);
  assert.deepEqual(namesOf("--full"), ["a", "b", "slow"]);
  assert.deepEqual(namesOf("--only", "slow", "--only", "a"), ["a", "slow"]);
  assert.deepEqual(namesOf("--full", "--skip", "b"), ["a", "slow"]);
  assert.throws(() => readOptions(["--skip", "c"], ALL), /no row is called c; known are a, b, slow/);
});

test("--compare measures the named rows first, and nothing if no row is named", () => {
  const read = (...args: string[]) => {
    const { rows, compare } = readOptions(args, ALL);
    return [rows.length, compare];
  };
  assert.deepEqual(read("--compare"), [0, ["baseline"]]);
  assert.deepEqual(read("--compare", "--json"), [0, ["baseline"]]);
  assert.deepEqual(read("--compare", "some.json"), [0, ["some.json"]]);
  assert.deepEqual(read("--only", "a", "--compare"), [1, ["latest"]]);
  assert.deepEqual(read("--write", "--compare", "baseline"), [2, ["baseline"]]);
  assert.deepEqual(read("--json"), [2, []]);
});

test("--compare with several kept runs measures nothing", () => {
  assert.deepEqual(readOptions(["--compare", "1.json", "2.json", "3.json"], ALL).compare, ["1.json", "2.json", "3.json"]);
  assert.throws(() => readOptions(["--only", "a", "--compare", "1.json", "2.json"], ALL), /measures no rows/);
  assert.throws(() => readOptions(["1.json"], ALL), /unknown argument 1\.json/);
});

test("parses growth sizes with units and requires increasing order", () => {
  const read = (...args: string[]) => readOptions(args, ALL).growth;
  assert.deepEqual(read(), [10_000, 100_000]);
  assert.deepEqual(read("--full"), [10_000, 100_000, 1_000_000]);
  assert.deepEqual(read("--full", "--growth", "500,20k,1M"), [500, 20_000, 1_000_000]);
  for (const sizes of ["10k", "10k,1k", "10k,x", "10k,10k"]) assert.throws(() => read("--growth", sizes), /--growth takes/, sizes);
});
