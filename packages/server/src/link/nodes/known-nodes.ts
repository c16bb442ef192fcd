import type { Clock } from "@roamfleet/clock";
import type { Db } from "../../kernel/db.ts";
import { type KnownNode, listNodes } from "./store-nodes.ts";

/** Minimum interval of database queries caused by unknown certificates, regardless of their number. */
export const ASK_EVERY_MS = 1_000;

/** The nodes of this installation, from the database. Nodes trust only each other's certificates listed there. */
export class KnownNodes {
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

  /** All waiting calls share one query. */
  #readNext(): Promise<KnownNode[]> {
    this.#next ??= this.#clock.sleep(ASK_EVERY_MS - this.#age(this.#read?.at ?? 0)).then(() => {
      this.#next = undefined;
      return this.#readNow();
    });
    return this.#next;
  }
}
