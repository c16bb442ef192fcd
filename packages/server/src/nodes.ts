import path from "node:path";
import { type Clock, systemClock } from "@roamfleet/clock";
import type { Command } from "commander";
import { readStore } from "./config.ts";
import { connect } from "./engines/db/index.ts";
import { Refusal, runningDatabase } from "./engines/db/embedded/index.ts";
import { createLog } from "./kernel/log.ts";
import { LEASE_MS, listHeartbeats, listNodeStates, type NodeState, watchHeartbeats } from "./link/index.ts";

/** A server that uses the database. `is_alive`: it renewed its lease during the observation. */
type ListedNode = NodeState & { is_alive: boolean };

/** How long heartbeats are observed: two renewal intervals, so that even a busy server renews at least once. */
const WATCH_MS = LEASE_MS * 0.7;

/** Adds `roamfleet nodes`. */
export function addNodes(program: Command): void {
  program
    .command("nodes")
    .description("list the servers on the database; takes some seconds to detect which are running")
    .option("--data <dir>", "the server's data directory (default: ./.roamfleet)")
    .option("--json", "one JSON document instead of a table")
    .action(async ({ data, json }: { data?: string; json?: boolean }) => {
      const nodes = await listNodes(readStore(data), systemClock);
      process.stdout.write(json === true ? `${JSON.stringify(nodes, null, 2)}\n` : nodeTable(nodes));
    });
}

async function listNodes({ data_directory, database_url }: ReturnType<typeof readStore>, clock: Clock): Promise<ListedNode[]> {
  const directory = path.join(path.resolve(data_directory), "postgres");
  const connection = database_url ?? (await runningDatabase(directory));
  if (connection === undefined) throw new Refusal(`no server runs on ${data_directory}; set DATABASE_URL for an external database`);
  const db = await connect({ connection, pool_size: 2, clock, log: createLog({ level: "warn" }) });
  try {
    const watched = await watchHeartbeats(() => listHeartbeats(db), { clock, within_ms: WATCH_MS });
    const alive = new Set(watched.flatMap(({ id, is_alive }) => (is_alive ? [id] : [])));
    return (await listNodeStates(db)).map((node) => ({ ...node, is_alive: alive.has(node.id) }));
  } finally {
    await db.close();
  }
}

const TITLES = ["ID", "VERSION", "ADDRESS", "ROBOTS", "STARTED", "STATE"] as const;

function nodeTable(nodes: readonly ListedNode[]): string {
  if (nodes.length === 0) return "no server runs on this database\n";
  const rows = nodes.map(({ id, version, address, robots, started_at, is_alive }) => [
    id,
    version ?? "-",
    address ?? "-",
    String(robots),
    started_at.toISOString().replace(/\.\d+/, ""),
    is_alive ? "alive" : "silent",
  ]);
  const widths = TITLES.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `${cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd()}\n`;
  return [TITLES, ...rows].map(line).join("");
}
