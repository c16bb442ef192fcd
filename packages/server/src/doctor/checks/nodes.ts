import { readFile } from "node:fs/promises";
import { connect as connectSocket } from "node:net";
import path from "node:path";
import type { Settings } from "../../config.ts";
import { connect } from "../../engines/db/index.ts";
import { LEASE_MS, listBeats, watchBeats } from "../../link/index.ts";
import type { Check, DoctorContext } from "../context.ts";
import { ok, problem, type Seen, skipped, warning } from "../finding.ts";

const silent = { info() {}, warn() {}, error() {} };

/** A row of a server that nobody has found dead. */
export interface NodeSeen {
  id: string;
  address: string | null;
  /** It said that it lives while we looked. */
  is_alive: boolean;
  /** Something accepts connections at its address; undefined: not tried. */
  is_reachable: boolean | undefined;
}

export const nodesCheck: Check = {
  name: "other servers",
  // A server says that it lives every three seconds, and a busy one a little later.
  timeout_ms_min: LEASE_MS,
  async check(context) {
    const { settings, wrong_parts, database, clock, timeout_ms, signal } = context;
    if (wrong_parts.has("database")) return [skipped("see settings")];
    const reached = await database();
    if (settings.database_url === undefined) return [skipped("an embedded database is of one server alone")];
    if (!("seen" in reached) || !reached.seen.may_serve_orgs) return [skipped("the database was not reached")];
    const { migrations } = reached.seen;
    if (migrations === undefined || migrations.is_new || migrations.pending.length + migrations.unknown.length > 0)
      return [skipped("the database is not of this version")];
    const own_id = (await readFile(path.join(settings.data_directory, "node-id"), "utf8").catch(() => "")).trim();
    const db = await connect({ connection: reached.address, pool_size: 2, clock, log: silent });
    try {
      const nodes = await watchBeats(() => listBeats(db), { clock, signal, within_ms: timeout_ms * 0.7 });
      const seen = await Promise.all(nodes.map(async (node) => ({ ...node, is_reachable: await tryReach(node, context) })));
      return judgeNodes(seen, { own_id, settings, connections_max: reached.seen.connections_max });
    } finally {
      await db.close();
    }
  },
};

/** Whether anything accepts connections where the other servers would connect to it. */
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
  /** Of the data directory; empty when it has none yet. */
  own_id: string;
  settings: Settings;
  connections_max: number;
}

export function judgeNodes(nodes: readonly NodeSeen[], { own_id, settings, connections_max }: Own): Seen[] {
  const others = nodes.filter(({ id, is_alive }) => id !== own_id && is_alive);
  const found: Seen[] = [];
  if (nodes.some(({ id, is_alive }) => id === own_id && is_alive))
    found.push(
      warning(
        `a server with the id of this data directory (${own_id}) runs now`,
        "nothing, if it is the one that you ask about; otherwise remove node-id here: one of two with the same id ends",
      ),
    );
  if (others.length === 0) return [ok("none lives"), ...found, ...judgeSilent(nodes, own_id)];
  found.unshift(
    ok(`${others.length} live: ${others.map(({ id, address }) => (address === null ? id : `${id} at ${address}`)).join(", ")}`),
  );
  return [
    ...found,
    ...judgeShared(settings),
    ...judgeAddresses(others, settings),
    ...judgePools(others.length, connections_max, settings),
    ...judgeSilent(nodes, own_id),
  ];
}

/** What several servers need in common. */
function judgeShared({ bus, blobs }: Settings): Seen[] {
  const found: Seen[] = [];
  if (bus === undefined)
    found.push(
      problem(
        "other servers live on this database, and this one would not hear of what they change",
        "set ROAMFLEET_BUS_URL, the same for all",
      ),
    );
  if (blobs === undefined)
    found.push(
      warning(
        "artifacts lie in this server's own directory, where the others do not find them",
        "set ROAMFLEET_BLOBS_URL, the same for all",
      ),
    );
  return found;
}

function judgeAddresses(others: readonly NodeSeen[], { bus }: Settings): Seen[] {
  const found: Seen[] = [];
  for (const { id, address, is_reachable } of others) {
    if (address === null && bus !== undefined)
      found.push(
        warning(
          `${id} listens for no other server: streams of its robots end there`,
          "start it with the same ROAMFLEET_BUS_URL as the others",
        ),
      );
    if (is_reachable === false)
      found.push(
        warning(
          `${id} cannot be reached at ${address} from here: streams of its robots would not pass`,
          "its --node-address, or a firewall in between",
        ),
      );
    if (address !== null && others.some((other) => other.id < id && other.address === address))
      found.push(warning(`${id} tells the same address as another server, ${address}`, "give each its own --node-address"));
  }
  return found;
}

function judgePools(others: number, connections_max: number, { limits }: Settings): Seen[] {
  const wanted = (others + 1) * limits.database_connections;
  if (wanted <= connections_max) return [];
  return [
    problem(
      `${others + 1} servers want ${wanted} connections to the database, if all have database_connections=${limits.database_connections}; it has ${connections_max}`,
      "raise max_connections of PostgreSQL, or lower --limit database_connections",
    ),
  ];
}

function judgeSilent(nodes: readonly NodeSeen[], own_id: string): Seen[] {
  const dead = nodes.filter(({ id, is_alive }) => id !== own_id && !is_alive).map(({ id }) => id);
  return dead.length === 0
    ? []
    : [ok(`silent while this was looked at, and found dead by the next server that starts: ${dead.join(", ")}`)];
}
