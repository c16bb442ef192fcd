import { readFile } from "node:fs/promises";
import path from "node:path";
import { writeDurably } from "../../kernel/write-durably.ts";

const FILE = "postgres.schema";

/** What the last server recorded about its embedded database, for use while that is not running. */
export interface SchemaRecord {
  /** Version of the program. */
  version: string;
  /** Names, in the order in which they ran. */
  migrations: string[];
}

export const writeSchemaRecord = (data_directory: string, record: SchemaRecord): Promise<void> =>
  writeDurably(path.join(data_directory, FILE), `${JSON.stringify(record)}\n`, 0o644);

/** Returns undefined if it is missing or unreadable. Then the database itself is checked. */
export async function readSchemaRecord(data_directory: string): Promise<SchemaRecord | undefined> {
  try {
    const { version, migrations } = JSON.parse(await readFile(path.join(data_directory, FILE), "utf8")) as Partial<SchemaRecord>;
    return typeof version === "string" && Array.isArray(migrations) ? { version, migrations } : undefined;
  } catch {
    return undefined;
  }
}
