import { type Clock, type Timer, within } from "@roamfleet/clock";
import type { JsonValue } from "@roamfleet/protocol";
import type { Logger } from "pino";
import packageJson from "../../package.json" with { type: "json" };
import { type Bus, isInteger, isText, readHint } from "../engines/bus/index.ts";
import { background, type Background } from "../kernel/background.ts";
import type { Db } from "../kernel/db.ts";
import { bigint, bool, int, list, nullable, row, type RowOf, sql, text, timestamptz } from "../kernel/sql.ts";

/**
 * A node that has not renewed its lease for this long is dead: its robots count as offline. Other nodes measure the time on their monotonic
 * clocks, from when they saw the last renewal. The node itself measures from before it sent that renewal, so it detects the expiry first.
 */
export const LEASE_MS = 9_000;
/** Interval of renewals. A dead node is detected after LEASE_MS plus at most two intervals. */
const RENEW_EVERY_MS = 3_000;
/**
 * After a node could not check the others for this long, it restarts its observation of the others, because they may have had the same
 * outage.
 */
const BLIND_MS = 2 * RENEW_EVERY_MS;
/** Maximum concurrent renewals: if a lost connection blocks one, a second can use another connection. */
const RENEWALS_MAX = 2;
/** Subject of the message to all nodes that a node was found dead, as {id, epoch}. */
const NODE_OVER = "rf.nodes.over";

const runRow = row({ id: text, epoch: bigint });
/** One run of a server process. A node keeps its id across restarts, and each run has a higher epoch. */
export type NodeRun = RowOf<typeof runRow>;

const nodeRow = row({ ...runRow.columns, beat: bigint, is_over: bool });
type NodeRow = RowOf<typeof nodeRow>;

const epochRow = row({ epoch: bigint });

interface LeaseContext {
  db: Db;
  clock: Clock;
  log: Logger;
}

export interface LeaseDuties {
  bus: Pick<Bus, "publish" | "subscribe" | "connected">;
  /** Must check the presence of robots. Called when a node died, or when this node may have been declared dead. */
  changed: () => void;
  /**
   * Must send this node's robots away. Called, possibly repeatedly, while the lease is expired and other nodes may consider this node dead.
   */
  cutOff: () => void;
  /** Must end the process. Called once, when another process uses this node's id, or when the node's row was deleted. */
  superseded: (why: string) => void;
}

const beatRow = row({ ...runRow.columns, beat: bigint, address: nullable(text) });
/** A run with its heartbeat counter and the address for other nodes (null: it has none). */
export type NodeHeartbeat = RowOf<typeof beatRow>;

/** Returns the runs that no node has found dead. If no other node runs, a dead run is still listed: its `beat` no longer changes. */
export const listHeartbeats = (db: Db): Promise<NodeHeartbeat[]> =>
  db.many(sql(beatRow)`select ${beatRow} from node where not is_over order by id`);

const nodeStateRow = row({ ...runRow.columns, version: nullable(text), address: nullable(text), started_at: timestamptz, robots: int });
/** A run with details for people. `robots` is the number of its links. */
export type NodeState = RowOf<typeof nodeStateRow>;

/** Returns the same runs as `listHeartbeats`. */
export const listNodeStates = (db: Db): Promise<NodeState[]> =>
  // reads tables of other features: robot
  db.many(sql(nodeStateRow)`
    -- across orgs: a node has robots of all orgs
    select n.id, n.epoch, n.version, n.address, n.started_at,
      (select count(*)::int from robot r where r.node_id = n.id and r.node_epoch = n.epoch) as robots
    from node n where not n.is_over order by n.id`);

/** Deletes the rows of nodes that stopped or died over a day ago. A node whose data directory was deleted would otherwise stay forever. */
export const deleteLongOver = (db: Db): Promise<number> =>
  db.run(sql`delete from node where is_over and renewed_at < now() - interval '1 day'`);

/** Renews the lease of this run, and observes the leases of the other nodes. */
export class Lease {
  readonly node: NodeRun;
  readonly #context: LeaseContext;
  /** Heartbeats of the other nodes, with the monotonic time at which each heartbeat was first seen. */
  readonly #watched = new Map<string, NodeRow & { since: number }>();
  /** Monotonic time just before the last successful renewal was sent. */
  #renewed_at: number;
  #looked_at: number;
  #is_superseded = false;
  readonly #under_way = new Set<Promise<void>>();

  private constructor(context: LeaseContext, node: NodeRun, renewed_at: number) {
    this.#context = context;
    this.node = node;
    this.#renewed_at = renewed_at;
    this.#looked_at = renewed_at;
  }

  /** Registers this run of the node. Its epoch is higher than that of every earlier run, including deleted ones. */
  static async take(context: LeaseContext, id: string): Promise<Lease> {
    const { db, clock } = context;
    const asked_at = clock.monotonic();
    const { epoch } = await db.one(sql(epochRow)`
      insert into node (id, epoch, beat, is_over, renewed_at, started_at, version)
      values (${id}, (extract(epoch from now()) * 1000)::bigint, 1, false, now(), ${clock.now()}, ${packageJson.version})
      on conflict (id) do update set epoch = node.epoch + 1, beat = node.beat + 1, is_over = false, renewed_at = now(),
        started_at = excluded.started_at, version = excluded.version
      returning epoch`);
    return new Lease(context, { id, epoch }, asked_at);
  }

  /**
   * Returns whether the lease is valid, so that no other node can have declared this one dead. Without a valid lease, the node accepts no
   * robots.
   */
  get is_held(): boolean {
    return !this.#is_superseded && this.#context.clock.monotonic() - this.#renewed_at <= LEASE_MS;
  }

  /** Renews the lease regularly and detects dead nodes. */
  keep(duties: LeaseDuties): Background {
    const { clock } = this.#context;
    const renewing = background(this.#context, "lease", RENEW_EVERY_MS, () => this.#renewInTime(duties));
    const sendAway = (): void => {
      if (!this.is_held && !this.#is_superseded) duties.cutOff();
    };
    const unsubscribe = duties.bus.subscribe(NODE_OVER, (message: JsonValue) => {
      const { id, epoch } = readHint<{ id: string; epoch: number }>(message, { id: isText, epoch: isInteger });
      if (id === this.node.id && epoch === this.node.epoch) sendAway();
    });
    // Checks the lease independently of the renewal, which may be blocked. Without the bus, no message reports that this node was found
    // dead, so the node must assume it.
    const watch: Timer = clock.every(RENEW_EVERY_MS, () => {
      if (!duties.bus.connected) sendAway();
    });
    return {
      ...renewing,
      stop: async () => {
        watch.cancel();
        unsubscribe();
        await renewing.stop();
        // Waits for running renewals: a late one would mark this run as alive after it has released its lease.
        await Promise.all(this.#under_way);
      },
    };
  }

  /** Releases the lease at shutdown, so that the other nodes need not wait for it to expire. */
  async giveUp(): Promise<void> {
    const { id, epoch } = this.node;
    await this.#context.db.run(sql`update node set is_over = true where id = ${id} and epoch = ${epoch}`);
  }

  /**
   * Starts a renewal and waits up to RENEW_EVERY_MS for it or for an earlier one. If neither gets a response, returns true, so that the
   * caller retries immediately. The loss of a database connection is noticed only after the lease expires, but another connection may work.
   */
  async #renewInTime(duties: LeaseDuties): Promise<boolean> {
    const { clock, log } = this.#context;
    if (this.#under_way.size < RENEWALS_MAX) {
      const renewal = this.#renew(duties)
        .catch((error: unknown) => log.error({ err: error }, "could not renew the lease"))
        .finally(() => this.#under_way.delete(renewal));
      this.#under_way.add(renewal);
    }
    const answered = Promise.race(Array.from(this.#under_way, (renewal) => renewal.then(() => true)));
    return (await within(clock, RENEW_EVERY_MS, answered)) === undefined;
  }

  async #renew(duties: LeaseDuties): Promise<void> {
    if (this.#is_superseded) return;
    const { db, clock, log } = this.#context;
    const { id, epoch } = this.node;
    const asked_at = clock.monotonic();
    // The select reads the rows as they were before the update.
    const nodes = await db.many(sql(nodeRow)`
      with renewed as (update node set beat = beat + 1, is_over = false, renewed_at = now() where id = ${id} and epoch = ${epoch})
      select ${nodeRow} from node where id = ${id} or not is_over`);
    const own = nodes.find((node) => node.id === id);
    if (this.#is_superseded) return;
    if (own?.epoch !== epoch) {
      this.#is_superseded = true;
      const why = own === undefined ? "the row of this node was deleted" : "another process runs under this node's id";
      log.fatal({ node_id: id, epoch, newer: own?.epoch ?? null, why }, "this process lost its node id, shutting down");
      return duties.superseded(why);
    }
    const silent_ms = Math.round(asked_at - this.#renewed_at);
    const was_late = !this.is_held;
    this.#renewed_at = Math.max(this.#renewed_at, asked_at);
    if (was_late || own.is_over) log.warn({ silent_ms, was_taken_for_dead: own.is_over }, "the lease was renewed late");
    const dead = await this.#markDead(this.#look(nodes, asked_at));
    for (const node of dead) {
      log.warn({ node_id: node.id, epoch: node.epoch }, "lease of a node expired: its robots count as offline");
      duties.bus.publish(NODE_OVER, { id: node.id, epoch: node.epoch });
    }
    if (was_late || own.is_over || dead.length > 0) duties.changed();
  }

  /** Returns the nodes whose beat has not changed for LEASE_MS. */
  #look(nodes: readonly NodeRow[], asked_at: number): NodeRow[] {
    const now = this.#context.clock.monotonic();
    const was_blind = now - this.#looked_at > BLIND_MS;
    this.#looked_at = now;
    const others = nodes.filter(({ id }) => id !== this.node.id);
    const ids = new Set(others.map(({ id }) => id));
    for (const id of this.#watched.keys()) if (!ids.has(id)) this.#watched.delete(id);
    const silent: NodeRow[] = [];
    for (const node of others) {
      const known = this.#watched.get(node.id);
      if (was_blind || known?.epoch !== node.epoch || known.beat !== node.beat) this.#watched.set(node.id, { ...node, since: now });
      else if (asked_at - known.since > LEASE_MS) silent.push(node);
    }
    return silent;
  }

  /** Marks nodes as dead. Skips nodes that have renewed meanwhile or that another node has marked. Returns the nodes that it marked. */
  async #markDead(silent: readonly NodeRow[]): Promise<NodeRun[]> {
    if (silent.length === 0) return [];
    return await this.#context.db.many(sql(runRow)`
      update node n set is_over = true
      from unnest(${list(silent.map(({ id }) => id))}::text[], ${list(silent.map(({ beat }) => beat))}::bigint[],
        ${list(silent.map(({ epoch }) => epoch))}::bigint[]) as v (id, beat, epoch)
      where n.id = v.id and n.beat = v.beat and n.epoch = v.epoch and not n.is_over
      returning n.id, n.epoch`);
  }
}

const LOOK_EVERY_MS = 250;

/**
 * Polls the runs that `look` returns, until all of them have renewed their lease or `within_ms` is over. Returns for each run whether it
 * renewed its lease.
 */
export async function watchHeartbeats(
  look: () => Promise<NodeHeartbeat[]>,
  { clock, within_ms, signal }: { clock: Pick<Clock, "monotonic" | "sleep">; within_ms: number; signal?: AbortSignal },
): Promise<(NodeHeartbeat & { is_alive: boolean })[]> {
  const first = await look();
  const alive = new Set<string>();
  const end = clock.monotonic() + within_ms;
  while (alive.size < first.length && clock.monotonic() < end && signal?.aborted !== true) {
    await clock.sleep(LOOK_EVERY_MS, signal);
    const now = new Map((await look()).map((node) => [node.id, node]));
    for (const { id, epoch, beat } of first) {
      const then = now.get(id);
      if (then !== undefined && (then.epoch !== epoch || then.beat !== beat)) alive.add(id);
    }
  }
  return first.map((node) => ({ ...node, is_alive: alive.has(node.id) }));
}
