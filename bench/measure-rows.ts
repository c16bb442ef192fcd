import os from "node:os";
import type { BenchOptions } from "./options.ts";
import { type Results, thisMachine } from "./results.ts";
import { withRig } from "./rig.ts";
import type { Row, RowResult } from "./row.ts";

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
  /** Called after each row with all results so far, to save them: a later row may be interrupted. */
  measured: (results: Results) => Promise<void>;
}

/** Measures the rows in order, waiting ones together. Reports a row that fails, and continues with the next. */
export async function measureRows(options: BenchOptions, { open = withRig, say, measured }: Report): Promise<Measurement> {
  const [results, failed]: [Results, Record<string, string>] = [{}, {}];
  const measure = async (row: Row): Promise<void> => {
    try {
      results[row.name] = await measureRow(row, options, open, say);
    } catch (error) {
      failed[row.name] = (error as Error).message;
      say(`${row.name} FAILED: ${(error as Error).stack}\n`);
    }
  };
  for (const rows of togetherOf(options.rows)) {
    await Promise.all(rows.map(measure));
    if (rows.some(({ name }) => name in results)) await measured(results);
  }
  return { results, failed };
}

/** Groups rows that wait and follow each other. Each other row is a separate group. */
function togetherOf(rows: readonly Row[]): Row[][] {
  const groups: Row[][] = [];
  for (const row of rows) {
    const last = groups.at(-1);
    if (row.waits === true && last?.at(-1)?.waits === true) last.push(row);
    else groups.push([row]);
  }
  return groups;
}

async function measureRow(
  { name, area, about, server, run }: Row,
  { quick, profile, growth }: BenchOptions,
  open: typeof withRig,
  say: Report["say"],
): Promise<Results[string]> {
  const [[load = Number.NaN], started] = [os.loadavg(), performance.now()];
  const measured_at = new Date().toISOString();
  say(`${name} (load ${load.toFixed(2)}): ${about} …\n`);
  const lines: RowResult[] = [];
  // A separate server for each row, so that none inherits memory or tables of another.
  await open({ ...server, quick, profile, growth }, async (rig) => {
    lines.push(...[await run(rig)].flat());
  });
  const [load_end = Number.NaN] = os.loadavg();
  const took_s = Math.round((performance.now() - started) / 1_000);
  return { area, about, measured_at, machine: thisMachine(), load, load_end, took_s, quick, lines };
}
