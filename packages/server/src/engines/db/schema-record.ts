import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "../../kernel/write-durably.ts";

const FILE = "postgres.schema";

/** What the last server wrote about its embedded database, for when that does not run. */
export interface SchemaRecord {
  /** Of the program. */
  version: string;
  /** Names, in the order in which they ran. */
  migrations: string[];
}

export const writeSchemaRecord = (data_directory: string, record: SchemaRecord): Promise<void> =>
  writeDurably(path.join(data_directory, FILE), `${JSON.stringify(record)}\n`, 0o644);

/** Undefined when there is none, or none that can be read: the database itself decides. */
export async function readSchemaRecord(data_directory: string): Promise<SchemaRecord | undefined> {
  try {
    const { version, migrations } = JSON.parse(await readFile(path.join(data_directory, FILE), "utf8")) as Partial<SchemaRecord>;
    return typeof version === "string" && Array.isArray(migrations) ? { version, migrations } : undefined;
  } catch {
    return undefined;
  }
}
