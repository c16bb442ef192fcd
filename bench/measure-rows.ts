import os from "node:os";
import type { BenchOptions } from "./options.ts";
import { type Results, thisMachine } from "./results.ts";
import { withRig } from "./rig.ts";
import { type Row, type RowResult, Together } from "./row.ts";

/** The rows that were measured, and the errors of the others by name. */
export interface Measurement {
  results: Results;
  failed: Record<string, string>;
}

interface Report {
  /** Opens the server on which rows are measured. */
  open?: typeof withRig;
  /** Prints text without a line break. */
  say: (text: string) => void;
  /** Called after each measurement with all results so far, so that an interrupted run is not lost. */
  measured: (results: Results) => Promise<void>;
}

/** Measures rows in order. A row that fails is reported, and the others are measured. */
export async function measureRows(options: BenchOptions, { open = withRig, say, measured }: Report): Promise<Measurement> {
  const [results, failed]: [Results, Record<string, string>] = [{}, {}];
  for (const rows of groupsOf(options.rows)) {
    const names = rows.map(({ name }) => name);
    try {
      Object.assign(results, await measureGroup(rows, options, open, say));
    } catch (error) {
      for (const name of names) failed[name] = (error as Error).message;
      say(`${names.join(", ")} FAILED: ${(error as Error).stack}\n`);
      continue;
    }
    await measured(results);
  }
  return { results, failed };
}

/** Groups the rows that are measured together, in the order of their first rows. */
function groupsOf(rows: readonly Row[]): (readonly [Row, ...Row[]])[] {
  const groups = new Map<unknown, [Row, ...Row[]]>();
  for (const row of rows) {
    const key = row.run instanceof Together ? row.run : row;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return [...groups.values()];
}

async function measureGroup(
  rows: readonly [Row, ...Row[]],
  { quick, profile, growth }: BenchOptions,
  open: typeof withRig,
  say: Report["say"],
): Promise<Results> {
  const [[load = Number.NaN], started] = [os.loadavg(), performance.now()];
  const measured_at = new Date().toISOString();
  for (const { name, about } of rows) say(`${name} (load ${load.toFixed(2)}): ${about} …\n`);
  let lines: Record<string, readonly RowResult[]> = {};
  const [{ run, server, name: first }] = rows;
  // A separate server for each group of rows, so that none inherits memory or tables of another.
  await open({ ...server, quick, profile, growth }, async (rig) => {
    lines = run instanceof Together ? await run.measure(rig, new Set(rows.map(({ name }) => name))) : { [first]: [await run(rig)].flat() };
  });
  const [load_end = Number.NaN] = os.loadavg();
  // Rows that are measured together share the time, so that the sum is the duration of the run.
  const took_s = Math.round((performance.now() - started) / 1_000 / rows.length);
  const shared = { measured_at, machine: thisMachine(), load, load_end, took_s, quick };
  return Object.fromEntries(rows.map(({ name, area, about }) => [name, { area, about, ...shared, lines: lines[name] ?? [] }]));
}
