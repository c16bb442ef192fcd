import { mkdir, readFile, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import type { RowResult } from "./row.ts";

/** Where a row was measured, and what else the machine did. */
export interface Machine {
  cpu: string;
  cores: number;
  memory_bytes: number;
  kernel: string;
  node: string;
}

/** A row as it was measured last. */
export interface Measured {
  about: string;
  measured_at: string;
  machine: Machine;
  /** Load average of the last minute when the row began. */
  load: number;
  /** Too few rounds to mean much. */
  quick: boolean;
  lines: readonly RowResult[];
}

/** Rows by name. */
export type Results = Record<string, Measured>;

export const LATEST = path.join(import.meta.dirname, "results", "latest.json");

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

/** Throws when the file is there and is not such results. */
export async function readResults(file: string): Promise<Results> {
  const { rows } = JSON.parse(await readFile(file, "utf8")) as { rows?: Results };
  if (rows === undefined || Array.isArray(rows)) throw new Error(`${file} holds no results of this bench`);
  return rows;
}

/** Rows that were not measured this time stay as they are in the file. */
export async function mergeResults(file: string, results: Results): Promise<void> {
  const before = await readResults(file).catch(() => ({}));
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify({ rows: { ...before, ...results } }, null, 2)}\n`);
}
