import { readdirSync, readFileSync } from "node:fs";
import type pg from "pg";
import { alternately, atRest, cpuMicroseconds } from "./measure.ts";

/** CPU microseconds of all running processes of a PostgreSQL on this machine. */
export async function postgresCpu(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const server = parentOf(rows[0]?.pid ?? 0);
  const own = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && parentOf(Number(name)) === server);
  return own.reduce((sum, pid) => sum + cpuOf(Number(pid)), 0);
}

/** Returns 0 if the process has ended. */
function cpuOf(pid: number): number {
  try {
    return cpuMicroseconds(pid);
  } catch {
    return 0;
  }
}

function parentOf(pid: number): number {
  try {
    // pid (name) state parent …; the name may contain any characters
    return Number(readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)?.split(" ")[1]);
  } catch {
    return Number.NaN;
  }
}

/** Operations per second in a round, and the CPU time per operation of the server and of PostgreSQL in µs. */
export interface Spent {
  per_second: number;
  server_us: number;
  postgres_us: number;
}

/** Measures the CPU time that `work` takes in the server process `pid` and in PostgreSQL. `work` returns the number of its operations. */
export async function spentIn(pid: number, client: pg.Client, work: () => Promise<number>): Promise<Spent> {
  await atRest(pid);
  const [server, postgres, started] = [cpuMicroseconds(pid), await postgresCpu(client), performance.now()];
  const operations = await work();
  const seconds = (performance.now() - started) / 1_000;
  return {
    per_second: operations / seconds,
    server_us: (cpuMicroseconds(pid) - server) / operations,
    postgres_us: ((await postgresCpu(client)) - postgres) / operations,
  };
}

/** A server process, and the work whose CPU time is measured. `work` returns the number of its operations. */
export interface Measured {
  pid: number;
  work: () => Promise<number>;
}

/** Measures our server and the limit as `spentIn` does, alternately, after a first round that only warms up. */
export const spentByTurns = (
  client: pg.Client,
  rounds: number,
  ours: Measured,
  limit: Measured,
): Promise<{ ours: Spent[]; limit: Spent[] }> =>
  alternately(
    rounds,
    () => spentIn(ours.pid, client, ours.work),
    () => spentIn(limit.pid, client, limit.work),
  );
