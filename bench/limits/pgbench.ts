import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import type { Rig } from "../rig.ts";
import type { BareQuery } from "../statements.ts";

const run = promisify(execFile);

/** Path of pgbench, PostgreSQL's benchmark program, in Debian packages. */
const findPgbench = (): string | undefined => globSync("/usr/lib/postgresql/*/bin/pgbench").toSorted().at(-1);

/** pgbench takes parameters as text and does not support null. */
function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return `{${value.map((item) => JSON.stringify(item)).join(",")}}`;
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return String(value);
  throw new Error("pgbench cannot be given this parameter");
}

/**
 * Returns the microseconds that one repetition takes without Node.js: pgbench sends prepared statements sequentially. Undefined if pgbench
 * is not installed.
 */
export async function pgbench(database: Rig["database"], queries: readonly BareQuery[], repetitions: number): Promise<number | undefined> {
  const program = findPgbench();
  if (program === undefined) return undefined;
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-pgbench-"));
  try {
    const script = path.join(directory, "script.sql");
    const lines = queries.map(({ text }, n) => `${text.replaceAll(/--.*$/gm, "").replaceAll(/\$(\d+)/g, `:q${n}p$1`)};\n`);
    await writeFile(script, lines.join(""));
    const parameters = queries.flatMap(({ values }, n) => values.flatMap((value, i) => ["-D", `q${n}p${i + 1}=${textOf(value)}`]));
    const { host, port, user, database: name } = database;
    const where = ["-h", host, "-p", String(port), "-U", user];
    const how = ["-n", "-M", "prepared", "-c", "1", "-t", String(repetitions), "-f", script];
    const { stdout } = await run(program, [...where, ...how, ...parameters, name]);
    return Number(/latency average = ([\d.]+) ms/.exec(stdout)?.[1] ?? Number.NaN) * 1_000;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
