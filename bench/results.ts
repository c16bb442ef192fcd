import { mkdir, readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { Sample } from "./measure.ts";
import type { Area, RowResult } from "./row.ts";

/** The machine on which a row was measured. */
export interface Machine {
  cpu: string;
  cores: number;
  memory_bytes: number;
  kernel: string;
  node: string;
}

/** The latest measurement of a row. */
export interface Measured {
  area: Area;
  about: string;
  measured_at: string;
  machine: Machine;
  /** Load average of the last minute before the measurement. */
  load: number;
  /** Load average of the last minute when the measurement ends, which includes the measurement's own load. */
  load_end?: number;
  took_s: number;
  /** Measured with too few rounds for a reliable result. */
  quick: boolean;
  lines: readonly RowResult[];
}

/** Rows by name. */
export type Results = Record<string, Measured>;

/** File with the results that the documentation page shows. */
export const LATEST = path.join(import.meta.dirname, "results", "latest.json");
/** File with the results of runs without `--write`. */
export const UNWRITTEN = path.join(import.meta.dirname, "results", "unwritten.json");

export function thisMachine(): Machine {
  const [cpu] = os.cpus();
  return {
    cpu: cpu?.model ?? "unknown",
    cores: os.cpus().length,
    memory_bytes: os.totalmem(),
    kernel: os.release(),
    node: process.version,
  };
}

export const describeMachine = ({ cpu, cores, memory_bytes, kernel, node }: Machine): string =>
  `${cpu}, ${cores} cores, ${Math.round(memory_bytes / 1024 ** 3)} GiB, Linux ${kernel}, Node ${node.slice(1)}`;

/** Reads a results file. Throws if the file does not exist or contains no results. */
export async function readResults(file: string): Promise<Results> {
  const { rows } = JSON.parse(await readFile(file, "utf8")) as { rows?: Results };
  if (rows === undefined || Array.isArray(rows)) throw new Error(`${file} holds no results of this bench`);
  return rows;
}

/** Merges results into a file. Rows that were not measured keep their earlier results. */
export async function mergeResults(file: string, results: Results): Promise<void> {
  const before = await readResults(file).catch(() => ({}));
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify({ rows: { ...before, ...rounded(results) } }, null, 1)}\n`);
}

const DIGITS = 4;
const short = (value: number): number => Number(value.toPrecision(DIGITS));
const shortSample = ({ median, min, max }: Sample): Sample => ({ median: short(median), min: short(min), max: short(max) });

/** Rounds figures to significant digits, so that the stored results are small and equal to those on the page. */
export function rounded(results: Results): Results {
  return Object.fromEntries(
    Object.entries(results).map(([name, { load, load_end, lines, ...row }]) => [
      name,
      { ...row, load: short(load), ...(load_end !== undefined && { load_end: short(load_end) }), lines: lines.map(roundedLine) },
    ]),
  );
}

function roundedLine({ ours, limit, ratio, ours_cpu_us, limit_cpu_us, ...line }: RowResult): RowResult {
  return {
    ...line,
    ...(ours && { ours: shortSample(ours) }),
    ...(limit && { limit: shortSample(limit) }),
    ...(ratio !== undefined && { ratio: short(ratio) }),
    ...(ours_cpu_us && { ours_cpu_us: shortSample(ours_cpu_us) }),
    ...(limit_cpu_us && { limit_cpu_us: shortSample(limit_cpu_us) }),
  };
}
