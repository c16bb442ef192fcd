import type { Clock, Timer } from "@roamfleet/clock";
import type { JsonValue } from "@roamfleet/protocol";
import type { Logger } from "pino";
import packageJson from "../../package.json" with { type: "json" };
import { type Bus, isInteger, isText, readHint } from "../engines/bus/index.ts";
import { background, type Background } from "../kernel/background.ts";
import type { Db } from "../kernel/db.ts";
import { bigint, bool, int, list, nullable, row, type RowOf, sql, text, timestamptz } from "../kernel/sql.ts";

/**
 * A node that has not renewed for so long, as whoever watches it measures by a clock that cannot be set, is dead: its robots
 * count as offline. It holds itself to the same time, from before the renewal was asked for, and so knows it first.
 */
export const LEASE_MS = 9_000;
/** Seen dead after LEASE_MS and two of these at most. */
const RENEW_EVERY_MS = 3_000;
/** Whoever could not look for so long knows nothing of the others: they may have had the same trouble. */
const BLIND_MS = 2 * RENEW_EVERY_MS;
/** Renewals that may wait for their answers: one more than the connection that is gone may hold up. */
const RENEWALS_MAX = 2;
/** Told to every node when one was found dead, as {id, epoch}. */
const NODE_OVER = "rf.nodes.over";

const runRow = row({ id: text, epoch: bigint });
/** One run of a server process: a node keeps its id over restarts, and each has a higher epoch. */
export type NodeRun = RowOf<typeof runRow>;

const nodeRow = row({ ...runRow.columns, beat: bigint, is_over: bool });
type NodeRow = RowOf<typeof nodeRow>;

const epochRow = row({ epoch: bigint });

export interface LeaseContext {
  db: Db;
  clock: Clock;
  log: Logger;
}

export interface LeaseDuties {
  bus: Pick<Bus, "publish" | "subscribe" | "connected">;
  /** A node died, or this one may have been taken for dead: robots' presence is to be looked at. */
  changed: () => void;
  /** The others take this node for dead and it cannot renew: its robots are to go elsewhere. Called again while that lasts. */
  cutOff: () => void;
  /** Another process runs under this node's id, or nobody knows this one any more: it must end. Called once. */
  superseded: (why: string) => void;
}

/** Runs of nodes that live, as far as anybody knows. */
export const listLivingNodes = (db: Db): Promise<NodeRun[]> =>
  // reads: node
  db.many(sql(runRow)`select ${runRow} from node where not is_over order by id`);

const beatRow = row({ ...runRow.columns, beat: bigint, address: nullable(text) });
/** One run with how often it has said that it lives, and where others connect to it (null: nowhere). */
export type NodeBeat = RowOf<typeof beatRow>;

/** Runs that nobody has found over: whose beat stays the same is silent, and was perhaps the only one to watch. */
export const listBeats = (db: Db): Promise<NodeBeat[]> => db.many(sql(beatRow)`select ${beatRow} from node where not is_over order by id`);

const nodeStateRow = row({ ...runRow.columns, version: nullable(text), address: nullable(text), started_at: timestamptz, robots: int });
/** One run with what people want to know of it; `robots` are those whose link it holds. */
export type NodeState = RowOf<typeof nodeStateRow>;

/** The same runs as `listBeats`. */
export const listNodeStates = (db: Db): Promise<NodeState[]> =>
  // reads: robot
  db.many(sql(nodeStateRow)`
    -- across orgs: a node holds everybody's robots
    select n.id, n.epoch, n.version, n.address, n.started_at,
      (select count(*)::int from robot r where r.node_id = n.id and r.node_epoch = n.epoch) as robots
    from node n where not n.is_over order by n.id`);

/** Deletes the rows of nodes that have been over for a day: one whose data directory is gone never comes back. */
export const deleteLongOver = (db: Db): Promise<number> =>
  db.run(sql`delete from node where is_over and renewed_at < now() - interval '1 day'`);

/** This run's word that it lives, and its eye on the others'. */
export class Lease {
  readonly node: NodeRun;
  readonly #context: LeaseContext;
  /** Others' beats, with the monotonic time at which each was first seen. */
  readonly #watched = new Map<string, NodeRow & { since: number }>();
  /** Monotonic, of before the last renewal that succeeded was sent. */
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

  /** Registers this run of the node: the epoch is higher than that of every run before, also of one whose row was deleted. */
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

  /** Whether nobody can have taken this node for dead. While it is false the node accepts no robots. */
  get is_held(): boolean {
    return !this.#is_superseded && this.#context.clock.monotonic() - this.#renewed_at <= LEASE_MS;
  }

  /** Renews, and takes note of nodes that died. */
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
    // Apart from the renewal, which may be waiting for an answer. One that hears nobody at all must take it that the others go on.
    const watch: Timer = clock.every(RENEW_EVERY_MS, () => {
      if (!duties.bus.connected) sendAway();
    });
    return {
      ...renewing,
      stop: async () => {
        watch.cancel();
        unsubscribe();
        await renewing.stop();
        // One that was late would say that this run lives when it has given up.
        await Promise.all(this.#under_way);
      },
    };
  }

  /** The node stopped in good order: nobody needs to wait for its silence. */
  async giveUp(): Promise<void> {
    const { id, epoch } = this.node;
    await this.#context.db.run(sql`update node set is_over = true where id = ${id} and epoch = ${epoch}`);
  }

  /**
   * True when it has to be asked again at once: a lost connection to the database is noticed later than the lease ends, and
   * another connection may do. An answer that comes late counts as much.
   */
  async #renewInTime(duties: LeaseDuties): Promise<boolean> {
    const { clock, log } = this.#context;
    if (this.#under_way.size < RENEWALS_MAX) {
      const renewal = this.#renew(duties)
        .catch((error: unknown) => log.error({ err: error }, "the lease could not be renewed"))
        .finally(() => this.#under_way.delete(renewal));
      this.#under_way.add(renewal);
    }
    const answered = new AbortController();
    const late = clock.sleep(RENEW_EVERY_MS, answered.signal).then(() => !answered.signal.aborted);
    try {
      return await Promise.race([late, ...Array.from(this.#under_way, (renewal) => renewal.then(() => false))]);
    } finally {
      answered.abort();
    }
  }

  async #renew(duties: LeaseDuties): Promise<void> {
    if (this.#is_superseded) return;
    const { db, clock, log } = this.#context;
    const { id, epoch } = this.node;
    const asked_at = clock.monotonic();
    // Answers what was before.
    const nodes = await db.many(sql(nodeRow)`
      with renewed as (update node set beat = beat + 1, is_over = false, renewed_at = now() where id = ${id} and epoch = ${epoch})
      select ${nodeRow} from node where id = ${id} or not is_over`);
    const own = nodes.find((node) => node.id === id);
    if (this.#is_superseded) return;
    if (own?.epoch !== epoch) {
      this.#is_superseded = true;
      const why = own === undefined ? "the others have forgotten this node" : "another process runs under this node's id";
      log.fatal({ node_id: id, epoch, newer: own?.epoch ?? null, why }, "this process is no node any more: it ends");
      return duties.superseded(why);
    }
    const silent_ms = Math.round(asked_at - this.#renewed_at);
    const was_late = !this.is_held;
    this.#renewed_at = Math.max(this.#renewed_at, asked_at);
    if (was_late || own.is_over) log.warn({ silent_ms, was_taken_for_dead: own.is_over }, "the lease was renewed late");
    const dead = await this.#markDead(this.#look(nodes, asked_at));
    for (const node of dead) {
      log.warn({ node_id: node.id, epoch: node.epoch }, "a node fell silent: its robots count as offline");
      duties.bus.publish(NODE_OVER, { id: node.id, epoch: node.epoch });
    }
    if (was_late || own.is_over || dead.length > 0) duties.changed();
  }

  /** Answers those whose beat has been the same for the time of a lease. */
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

  /** Unless they have renewed since, or somebody else was first. */
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
