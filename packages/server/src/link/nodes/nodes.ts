import type { TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { Db } from "../../kernel/db.ts";
import { bigint, row, type RowOf, sql, text, timestamptz } from "../../kernel/sql.ts";
import { runCertificate } from "../../kernel/tls/certificate-authority.ts";
import type { NodeRun } from "../lease.ts";
import { addressText, connectNode, type HostPort, reachableHost } from "./connect-node.ts";
import { NodeListener, type NodeUpgrade } from "./node-listener.ts";

const nodeRow = row({ id: text, epoch: bigint, address: text, tls_fingerprint: text });
/** One run of a node that others can connect to. */
export type KnownNode = RowOf<typeof nodeRow>;

/** Returns the living nodes that listen for other nodes. */
const listNodes = (db: Db): Promise<KnownNode[]> =>
  db.many(sql(nodeRow)`
    select ${nodeRow} from node where not is_over and address is not null and tls_fingerprint is not null order by id`);

/** Stores the address and certificate fingerprint of this run of the node; undefined: it does not listen. */
export const writeNodeAddress = (
  db: Db,
  { id, epoch }: NodeRun,
  at: { address: string; tls_fingerprint: string } | undefined,
): Promise<number> =>
  db.run(sql`
    update node set address = ${at?.address ?? null}, tls_fingerprint = ${at?.tls_fingerprint ?? null}
    where id = ${id} and epoch = ${epoch}`);

const refusedRow = row({ refused_host: text, refused_host_at: timestamptz });

/** Stores the latest host that a robot signed for and this node refused. */
export const writeRefusedHost = (db: Db, { id, epoch }: NodeRun, { host, at }: { host: string; at: Date }): Promise<number> =>
  db.run(sql`update node set refused_host = ${host}, refused_host_at = ${at} where id = ${id} and epoch = ${epoch}`);

/** Returns the hosts that nodes refused at or after `since`, without duplicates, the latest first. */
export const listRefusedHosts = async (db: Db, since: Date): Promise<string[]> =>
  (
    await db.many(sql(refusedRow)`
      select refused_host, max(refused_host_at) as refused_host_at from node where refused_host_at >= ${since}
      group by refused_host order by refused_host_at desc`)
  ).map(({ refused_host }) => refused_host);

/** Minimum interval of database queries caused by unknown certificates, regardless of their number. */
const ASK_EVERY_MS = 1_000;

/** The nodes of this installation, from the database. Nodes trust only certificates that the database lists. */
class KnownNodes {
  readonly #db: Db;
  readonly #clock: Clock;
  #read: { at: number; nodes: Promise<KnownNode[]> } | undefined;
  #next: Promise<KnownNode[]> | undefined;

  constructor({ db, clock }: { db: Db; clock: Clock }) {
    this.#db = db;
    this.#clock = clock;
  }

  /** Returns the living nodes, including this one. */
  list(): Promise<KnownNode[]> {
    return listNodes(this.#db);
  }

  /** Returns the living node with this certificate. Rejects if the database does not respond. */
  async byFingerprint(fingerprint: string): Promise<KnownNode | undefined> {
    const of = (nodes: readonly KnownNode[]): KnownNode | undefined => nodes.find(({ tls_fingerprint }) => tls_fingerprint === fingerprint);
    const read = this.#read;
    // The list is recent, but the node may have started since: wait for the next query.
    if (read !== undefined && this.#age(read.at) < ASK_EVERY_MS) return of(await read.nodes) ?? of(await this.#readNext());
    return of(await this.#readNow());
  }

  #age(at: number): number {
    return this.#clock.monotonic() - at;
  }

  #readNow(): Promise<KnownNode[]> {
    const nodes = this.list();
    this.#read = { at: this.#clock.monotonic(), nodes };
    return nodes;
  }

  /** Waits until the next query is allowed, and runs it. All waiting calls share that query. */
  #readNext(): Promise<KnownNode[]> {
    this.#next ??= this.#clock.sleep(ASK_EVERY_MS - this.#age(this.#read?.at ?? 0)).then(() => {
      this.#next = undefined;
      return this.#readNow();
    });
    return this.#next;
  }
}

interface NodesContext {
  db: Db;
  clock: Clock;
  log: Logger;
  node: NodeRun;
  /** Called for each refused connection. */
  onRefused: () => void;
}

interface NodesSettings {
  listen: HostPort;
  /** Address at which other nodes connect. Undefined: detected automatically. Port 0: the port of the listener. */
  address: HostPort | undefined;
}

/** The other nodes of this installation: a list, a way to connect to them, and a listener for them. */
export interface Nodes {
  /** Returns the living nodes without this one. Rejects if the database does not respond. */
  others(): Promise<KnownNode[]>;
  /** Connects to a node with mutual authentication. Rejects with a reason for the log. */
  connect(node: KnownNode): Promise<TLSSocket>;
  /** Sets the handler of upgrade requests from other nodes. */
  onUpgrade(take: NodeUpgrade): void;
  close(): Promise<void>;
}

/** Listens for the other nodes and publishes the address. Rejects if it cannot listen there. */
export async function openNodes(context: NodesContext, { listen, address }: NodesSettings): Promise<Nodes> {
  const { db, clock, log, node, onRefused } = context;
  const known = new KnownNodes({ db, clock });
  const pair = await runCertificate(clock.now());
  const knows = async (fingerprint: string): Promise<boolean> => (await known.byFingerprint(fingerprint)) !== undefined;
  const listener = await NodeListener.open({ listen, pair, knows, clock, log, onRefused });
  const reached = addressText({ host: address?.host ?? reachableHost(listen.host), port: address?.port || listener.port });
  const list = async (): Promise<KnownNode[]> => {
    const nodes = await known.list();
    for (const { address: of_node } of nodes) listener.expect(of_node);
    return nodes;
  };
  try {
    // Registers the other nodes' networks as known, because no node has connected yet after a restart. Otherwise strangers could fill the
    // slots of unknown networks, which the nodes would have to share.
    await list();
    await writeNodeAddress(db, node, { address: reached, tls_fingerprint: pair.fingerprint });
  } catch (error) {
    await listener.close();
    throw error;
  }
  log.info({ port: listener.port, address: reached }, "listening for other servers");
  return {
    others: async () => (await list()).filter(({ id, epoch }) => id !== node.id || epoch !== node.epoch),
    connect: (to) => connectNode(to, pair, clock),
    onUpgrade: (take) => listener.onUpgrade(take),
    close: () => listener.close(),
  };
}
