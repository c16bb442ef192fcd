import type { Db } from "./db.ts";

export async function dumpSchema(db: Db): Promise<string> {
  void db;
  return await Promise.resolve("");
}
