import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { floorStatements } from "./limits/pg-floor.ts";
import { sample } from "./measure.ts";
import { pageOf, tableOf } from "./report.ts";
import { type Measured, mergeResults, readResults, thisMachine } from "./results.ts";
import { statementsOf } from "./statements.ts";

const measured = (ratio: number, more: Partial<Measured> = {}): Measured => ({
  about: "a thing | and its limit",
  measured_at: "2030-01-02T03:04:05.000Z",
  machine: thisMachine(),
  load: 0.25,
  quick: false,
  lines: [
    { ours: sample([ratio * 9, ratio * 10, ratio * 12]), limit: sample([10]), unit: "µs", ratio, goal: "≤ 1.25", met: ratio <= 1.25 },
    { part: "of that the database", limit: sample([4]), unit: "µs" },
  ],
  ...more,
});

test("a table tells the spread, the verdict and what changed since an earlier run", () => {
  const table = tableOf({ "get-robot": measured(1.5) }, { "get-robot": measured(1.2), gone: measured(9) });
  assert.match(table, /get-robot +│ 15\.00 \(13\.50–18\.00\) µs +│ 10\.00 µs +│ 1\.50 +│ ≤ 1\.25 +│ MISSED/);
  assert.match(table, /1\.20 → 1\.50 \(\+25 %\)/);
  assert.match(table, /of that the database +│ +│ 4\.00 µs/);
  assert.doesNotMatch(table, /gone/);
  assert.doesNotMatch(tableOf({ "get-robot": measured(1.5) }, undefined), /→/);
});

test("the page names machine, day and load, and says so when its figures mean little", () => {
  const page = pageOf({
    "get-robot": measured(1.2),
    quick: measured(1, { quick: true, load: 7, measured_at: "2030-01-05T00:00:00.000Z" }),
  });
  assert.ok(page.includes(thisMachine().cpu));
  assert.match(page, /Days: 2030-01-02 to 2030-01-05\. Load of the\nmachine before a row began: 0\.3 to 7\.0/);
  assert.match(page, /measured with `--quick`/);
  assert.match(page, /\| `get-robot` \| 12\.00 \(10\.80–14\.40\) µs \| 10\.00 µs \| 1\.20 \| ≤ 1\.25 \| met \|/);
  assert.doesNotMatch(pageOf({ "get-robot": measured(1.2) }), /--quick`: their/);
});

test("rows that were not measured again stay in a file of results; another file is refused", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "bench-results-"));
  try {
    const file = path.join(directory, "results.json");
    await mergeResults(file, { a: measured(1), b: measured(2) });
    await mergeResults(file, { b: measured(3) });
    const results = await readResults(file);
    assert.deepEqual([results.a?.lines[0]?.ratio, results.b?.lines[0]?.ratio], [1, 3]);
    assert.ok((await readFile(file, "utf8")).endsWith("\n"));
    await writeFile(file, '{"rows":[]}');
    await assert.rejects(readResults(file), /holds no results/);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("the floor of a POST is its whole transaction, in order", async () => {
  const statements = floorStatements({ org_id: "org_1", robot_ids: ["rob_1"], due_at: new Date(0) });
  const post = statements.find(({ name }) => name.includes("as POST does it"));
  assert.ok(post !== undefined);
  const sent = (await statementsOf((db) => post.work(db, 0))).map(({ text }) => text.trim().split(/ *\(/, 1)[0]);
  assert.deepEqual(sent, ["begin", "insert into site", "insert into audit_entry", "commit"]);
});
