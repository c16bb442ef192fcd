import assert from "node:assert/strict";
import { test } from "node:test";
import { measureRows } from "./measure-rows.ts";
import type { BenchOptions } from "./options.ts";
import type { Rig, withRig } from "./rig.ts";
import type { Row } from "./row.ts";

const row = (name: string, run: Row["run"]): Row => ({ name, area: "api", about: name, run });
const line = (part: string) => ({ part, unit: "µs" });

/** Measures rows that need no server. */
async function measure(rows: readonly Row[]) {
  const open: typeof withRig = (_, work) => work({} as Rig);
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
  return { ...all, saved, text };
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

test("rows that wait are measured at the same time as those beside them, and others alone", async () => {
  const running = new Set<string>();
  const seen: string[] = [];
  const noted = (name: string, waits: boolean): Row => ({
    ...row(name, async () => {
      running.add(name);
      // Rows that are measured together have all begun after the next turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      seen.push([...running].join(" "));
      await new Promise((resolve) => setImmediate(resolve));
      running.delete(name);
      return line(name);
    }),
    ...(waits ? { waits } : {}),
  });
  await measure([noted("a", true), noted("b", false), noted("c", true), noted("d", true), noted("e", false)]);
  assert.deepEqual(seen, ["a", "b", "c d", "c d", "e"]);
});
