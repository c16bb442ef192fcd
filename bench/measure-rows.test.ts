import assert from "node:assert/strict";
import { test } from "node:test";
import { measureRows } from "./measure-rows.ts";
import type { BenchOptions } from "./options.ts";
import type { Rig, withRig } from "./rig.ts";
import { type Row, Together } from "./row.ts";

const row = (name: string, run: Row["run"]): Row => ({ name, area: "api", about: name, run });
const line = (part: string) => ({ part, unit: "µs" });

/** Measures rows that need no server. */
async function measure(rows: readonly Row[]) {
  let opened = 0;
  const open: typeof withRig = async (_, work) => {
    opened += 1;
    await work({} as Rig);
  };
  const saved: string[][] = [];
  const options: BenchOptions = {
    rows,
    compare: [],
    json: false,
    out: undefined,
    profile: undefined,
    growth: [],
    quick: true,
    write: false,
    help: false,
  };
  const measured = (results: object): Promise<void> => Promise.resolve(void saved.push(Object.keys(results)));
  let text = "";
  const all = await measureRows(options, { open, measured, say: (more) => void (text += more) });
  return { ...all, opened, saved, text };
}

test("a failed row is reported, and the rows after it are measured and saved", async () => {
  const { results, failed, saved, text } = await measure([
    row("first", () => Promise.resolve(line("a"))),
    row("broken", () => Promise.reject(new Error("a client ended with 1"))),
    row("last", () => Promise.resolve([line("b"), line("c")])),
  ]);
  assert.deepEqual(
    Object.entries(results).map(([name, { lines }]) => [name, lines.length]),
    [
      ["first", 1],
      ["last", 2],
    ],
  );
  assert.deepEqual(failed, { broken: "a client ended with 1" });
  assert.deepEqual(saved, [["first"], ["first", "last"]]);
  assert.match(text, /broken FAILED: Error: a client ended with 1/);
});

test("rows that are measured together share one server, and only selected rows are measured", async () => {
  const asked: string[][] = [];
  const together = new Together((_, names) => {
    asked.push([...names]);
    return Promise.resolve({ a: [line("of a")], b: [line("of b")], c: [line("of c")] });
  });
  const { results, opened } = await measure([row("a", together), row("alone", () => Promise.resolve([])), row("c", together)]);
  assert.deepEqual(asked, [["a", "c"]]);
  assert.equal(opened, 2);
  assert.deepEqual(Object.keys(results), ["a", "c", "alone"]);
  assert.equal(results.c?.lines[0]?.part, "of c");
});
