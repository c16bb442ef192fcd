import type { TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { Db } from "../../kernel/db.ts";
import { runCertificate } from "../../kernel/tls/index.ts";
import type { NodeRun } from "../lease.ts";
import { addressText, type HostPort, reachableHost } from "./address.ts";
import { connectNode } from "./connect-node.ts";
import { KnownNodes } from "./known-nodes.ts";
import { NodeListener, type NodeUpgrade } from "./node-listener.ts";
import { type KnownNode, writeNodeAddress } from "./store-nodes.ts";

export interface NodesContext {
  db: Db;
  clock: Clock;
  log: Logger;
  node: NodeRun;
  /** Called for each refused connection. */
  onRefused: () => void;
}

export interface NodesSettings {
  listen: HostPort;
  /** Address that other nodes use; undefined: detected. Port 0 means the port that is listened on. */
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
    // After a restart no node has connected yet. Without this, strangers could fill the slots of unknown networks.
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
