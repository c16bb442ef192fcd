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

/** Measures the rows in order. Reports a row that fails, and continues with the next. */
export async function measureRows(options: BenchOptions, { open = withRig, say, measured }: Report): Promise<Measurement> {
  const [results, failed]: [Results, Record<string, string>] = [{}, {}];
  for (const row of options.rows) {
    try {
      results[row.name] = await measureRow(row, options, open, say);
    } catch (error) {
      failed[row.name] = (error as Error).message;
      say(`${row.name} FAILED: ${(error as Error).stack}\n`);
      continue;
    }
    await measured(results);
  }
  return { results, failed };
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
