import { realpath } from "node:fs/promises";
import { SUPERUSER } from "./cluster.ts";
import type { Connection } from "./connect.ts";
import { identifyPostgres, readPostmasterFile } from "./postmaster.ts";
import { DATABASE } from "./supervisor.ts";

/** Returns the connection of the database that is running on this directory; undefined if there is none. */
export async function runningDatabase(given: string): Promise<Connection | undefined> {
  const directory = await realpath(given).catch(() => given);
  const file = await readPostmasterFile(directory);
  if (file?.status !== "ready" || (await identifyPostgres(file.pid, directory)) === undefined) return undefined;
  return { host: file.socketDirectory, port: file.port, user: SUPERUSER, database: DATABASE };
}
