import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "../../../kernel/write-durably.ts";

/** File in a data directory with the time of its last complete backup. */
const FILE = "last-backup";

export const writeLastBackup = (data_directory: string, made_at: string): Promise<void> =>
  writeDurably(path.join(data_directory, FILE), `${made_at}\n`, 0o600);

/** Returns when the last complete backup was made; undefined without one. */
export async function readLastBackup(data_directory: string): Promise<Date | undefined> {
  const text = await readFile(path.join(data_directory, FILE), "utf8").catch(() => "");
  const at = new Date(text.trim());
  return Number.isNaN(at.getTime()) ? undefined : at;
}
