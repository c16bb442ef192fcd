import { readFile } from "node:fs/promises";
import { connect as connectSocket } from "node:net";
import path from "node:path";
import type { Settings } from "../../config.ts";
import { LEASE_MS, listHeartbeats, watchHeartbeats } from "../../link/index.ts";
import { type Check, type DoctorContext, ok, onDatabase, problem, type Seen, skipped, warning } from "../finding.ts";

/** A server that is registered in the database and that no other server has declared dead. */
export interface NodeSeen {
  id: string;
  address: string | null;
  /** Whether the server renewed its lease during the check. */
  is_alive: boolean;
  /** Whether the server's address accepts connections; undefined if this was not tried. */
  is_reachable: boolean | undefined;
}

export const nodesCheck: Check = {
  name: "other servers",
  // The check must last long enough to see a renewal: a server renews its lease every three seconds, or later under load.
  timeout_ms_min: LEASE_MS,
  async check(context) {
    const { settings, wrong_parts, database, clock, timeout_ms, signal } = context;
    if (wrong_parts.has("database")) return [skipped("not checked: first fix the problem in settings")];
    const reached = await database();
    if (settings.database_url === undefined) return [skipped("not applicable: an embedded database has only one server")];
    if (!("seen" in reached) || !reached.seen.may_serve_orgs) return [skipped("the database is unreachable")];
    const { connections_max } = reached.seen;
    const own_id = (await readFile(path.join(settings.data_directory, "node-id"), "utf8").catch(() => "")).trim();
    const found = await onDatabase(context, async (db) => {
      const nodes = await watchHeartbeats(() => listHeartbeats(db), { clock, signal, within_ms: timeout_ms * 0.7 });
      const seen = await Promise.all(nodes.map(async (node) => ({ ...node, is_reachable: await tryReach(node, context) })));
      return evaluateNodes(seen, { own_id, settings, connections_max });
    });
    return found ?? [skipped("the database has another version")];
  },
};

/** Returns whether a server's address for other servers accepts connections. */
async function tryReach(
  { address, is_alive }: { address: string | null; is_alive: boolean },
  { clock, timeout_ms, signal }: DoctorContext,
): Promise<boolean | undefined> {
  const [, host, port] = /^\[?(.+?)\]?:(\d+)$/.exec(address ?? "") ?? [];
  if (!is_alive || host === undefined) return undefined;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connectSocket({ host, port: Number(port), signal });
  const late = clock.setTimer(timeout_ms * 0.2, () => resolve(false));
  socket.on("connect", () => resolve(true));
  socket.on("error", () => resolve(false));
  return promise.finally(() => {
    late.cancel();
    socket.destroy();
  });
}

interface Own {
  /** This server's node id, from the data directory; empty if the directory has none yet. */
  own_id: string;
  settings: Settings;
  connections_max: number;
}

export function evaluateNodes(nodes: readonly NodeSeen[], { own_id, settings, connections_max }: Own): Seen[] {
  const others = nodes.filter(({ id, is_alive }) => id !== own_id && is_alive);
  const found: Seen[] = [];
  if (nodes.some(({ id, is_alive }) => id === own_id && is_alive))
    found.push(
      warning(
        `a server with the id of this data directory (${own_id}) is running`,
        "no action needed if it is this server; otherwise remove the file node-id from this data directory: of two servers with the same id, one stops",
      ),
    );
  if (others.length === 0) return [ok("no other server is running"), ...found, ...evaluateSilent(nodes, own_id)];
  found.unshift(
    ok(`${others.length} running: ${others.map(({ id, address }) => (address === null ? id : `${id} at ${address}`)).join(", ")}`),
  );
  return [
    ...found,
    ...evaluateShared(settings),
    ...evaluateAddresses(others, settings),
    ...evaluatePools(others.length, connections_max, settings),
    ...evaluateSilent(nodes, own_id),
  ];
}

/** Checks that several servers use a shared bus and a shared artifact store. */
function evaluateShared({ bus, blobs }: Settings): Seen[] {
  const found: Seen[] = [];
  if (bus === undefined)
    found.push(
      problem(
        "other servers use this database, and this one would not be notified of their changes",
        "set the same ROAMFLEET_BUS_URL on all servers",
      ),
    );
  if (blobs === undefined)
    found.push(
      warning(
        "artifacts are in this server's directory, which the other servers cannot read",
        "set the same ROAMFLEET_BLOBS_URL on all servers",
      ),
    );
  return found;
}

function evaluateAddresses(others: readonly NodeSeen[], { bus }: Settings): Seen[] {
  const found: Seen[] = [];
  for (const { id, address, is_reachable } of others) {
    if (address === null && bus !== undefined)
      found.push(
        warning(
          `${id} does not listen for other servers: they cannot open streams of its robots`,
          "start that server with the same ROAMFLEET_BUS_URL as the others",
        ),
      );
    if (is_reachable === false)
      found.push(
        warning(
          `${id} is unreachable at ${address}: this server cannot open streams of its robots`,
          "check the --node-address of that server, and firewalls",
        ),
      );
    if (address !== null && others.some((other) => other.id < id && other.address === address))
      found.push(warning(`${id} has the same address as another server, ${address}`, "set a different --node-address on each"));
  }
  return found;
}

function evaluatePools(others: number, connections_max: number, { limits }: Settings): Seen[] {
  const wanted = (others + 1) * limits.database_connections;
  if (wanted <= connections_max) return [];
  return [
    problem(
      `${others + 1} servers need ${wanted} database connections, if all have database_connections=${limits.database_connections}; PostgreSQL allows ${connections_max}`,
      "raise max_connections of PostgreSQL, or lower --limit database_connections",
    ),
  ];
}

function evaluateSilent(nodes: readonly NodeSeen[], own_id: string): Seen[] {
  const dead = nodes.filter(({ id, is_alive }) => id !== own_id && !is_alive).map(({ id }) => id);
  return dead.length === 0
    ? []
    : [ok(`no heartbeat during the check; the next server that starts will mark these servers as dead: ${dead.join(", ")}`)];
}
