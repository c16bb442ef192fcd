import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { floorStatements } from "./limits/pg-floor.ts";
import { sample } from "./measure.ts";
import { ROWS } from "./all-rows.ts";
import { pageOf, REASONS_FILE, reasonsIn } from "./page.ts";
import { tableOf } from "./report.ts";
import { LATEST, type Measured, mergeResults, readResults, thisMachine } from "./results.ts";
import { keepRun, listRuns, type Run } from "./runs.ts";
import { statementsOf } from "./statements.ts";

const measured = (ratio: number, more: Partial<Measured> = {}): Measured => ({
  area: "api",
  about: "a thing | and its limit",
  measured_at: "2030-01-02T03:04:05.000Z",
  machine: thisMachine(),
  load: 0.25,
  took_s: 1,
  quick: false,
  lines: [
    { ours: sample([ratio * 9, ratio * 10, ratio * 12]), limit: sample([10]), unit: "µs", ratio, goal: "≤ 1.25", met: ratio <= 1.25 },
    { part: "of that the database", limit: sample([4]), unit: "µs" },
  ],
  ...more,
});

test("the result table shows the spread and the verdict of each row", () => {
  const table = tableOf({ "get-robot": measured(1.5) });
  assert.match(table, /get-robot +│ 15\.00 \(13\.50–18\.00\) µs +│ 10\.00 µs +│ 1\.50 +│ ≤ 1\.25 +│ MISSED/);
  assert.match(table, /of that the database +│ +│ 4\.00 µs/);
});

test("the results page contains machine, day and load, and a warning for quick measurements", () => {
  const page = pageOf(
    {
      "get-robot": measured(1.2),
      quick: measured(1, { quick: true, load: 7, load_end: 9, measured_at: "2030-01-05T00:00:00.000Z" }),
    },
    new Set(),
  );
  assert.ok(page.includes(thisMachine().cpu));
  assert.match(
    page,
    /Days: 2030-01-02 to 2030-01-05\. Load of the\nmachine before a row began: 0\.3 to 7\.0; when it was over, its own work in it: 9\.0 to 9\.0/,
  );
  assert.match(page, /measured with `--quick`/);
  assert.match(page, /\| `get-robot` \| 12\.00 \(10\.80–14\.40\) µs \| 10\.00 µs \| 1\.20 \| ≤ 1\.25 \| met \|/);
  assert.match(page, /## Missed goals\n\nNone of 2\./);
  assert.doesNotMatch(pageOf({ "get-robot": measured(1.2) }, new Set()), /--quick`: their/);
});

test("the results page lists missed goals with their reasons, then all rows by area", () => {
  const results = { "b-row": measured(2, { area: "streams" }), "a-row": measured(3), fine: measured(1, { area: "links" }) };
  const page = pageOf(results, new Set(["b-row"]));
  const places = ["2 of 3.", "| `b-row` |", "| `a-row` |", "## API", "## Robots' links", "## Streams"].map((text) => page.indexOf(text));
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
  );
  assert.ok(!places.includes(-1));
  assert.match(page, /`b-row` .*\[why\]\(missed-goals\.md#b-row\)/);
  assert.match(page, /`a-row` .*not known yet/);
  assert.doesNotMatch(page.slice(0, page.indexOf("## API")), /`fine`/);
});

const root = path.resolve(import.meta.dirname, "..");

test("the documentation page of the benchmarks matches the latest results", async () => {
  const reasons = reasonsIn(await readFile(path.join(root, REASONS_FILE), "utf8"));
  const page = await readFile(path.join(root, "docs/reference/performance.md"), "utf8");
  assert.equal(page, pageOf(await readResults(LATEST), reasons), "npm run bench -- --write writes it");
});

test("every row on the results page is a row of the bench, in the same area", async () => {
  const latest = await readResults(LATEST);
  for (const [name, { area }] of Object.entries(latest)) assert.equal(ROWS.find((row) => row.name === name)?.area, area, name);
});

test("stores each benchmark run with its machine and load, and deletes the oldest runs", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "bench-runs-"));
  try {
    const run = (minute: number): Run => ({
      begun_at: `2030-01-02T03:0${minute}:05.000Z`,
      ended_at: `2030-01-02T03:0${minute}:45.000Z`,
      commit: "abcdef12+",
      machine: thisMachine(),
      load_begin: [1, 2, 3],
      load_end: [4, 5, 6],
      rows: { a: measured(1.234567) },
      failed: {},
    });
    for (const minute of [1, 2, 3]) await keepRun(run(minute), directory, 2);
    const files = await listRuns(directory);
    assert.deepEqual(
      files.map((file) => path.basename(file)),
      ["2030-01-02T0302-abcdef12.json", "2030-01-02T0303-abcdef12.json"],
    );
    const [kept] = files;
    assert.equal((await readResults(kept ?? "")).a?.lines[0]?.ratio, 1.235, "a kept run can be compared with");
    assert.deepEqual((JSON.parse(await readFile(kept ?? "", "utf8")) as Run).load_end, [4, 5, 6]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test("keeps rows that were not measured again in a results file, and refuses any other file", async () => {
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

test("the database baseline of a POST runs every statement of its transaction in order", async () => {
  const statements = floorStatements({ org_id: "org_1", robot_ids: ["rob_1"], due_at: new Date(0) });
  const post = statements.find(({ name }) => name.includes("as POST does it"));
  assert.ok(post !== undefined);
  const sent = (await statementsOf((db) => post.work(db, 0))).map(({ text }) => text.trim().split(/ *\(/, 1)[0]);
  assert.deepEqual(sent, ["begin", "insert into site", "insert into audit_entry", "commit"]);
});
