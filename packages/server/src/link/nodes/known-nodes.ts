import type { Clock } from "@roamfleet/clock";
import type { Db } from "../../kernel/db.ts";
import { type KnownNode, listNodes } from "./store-nodes.ts";

/** Who connects with a certificate that nobody knows makes us ask the database no more often than this, however many they are. */
export const ASK_EVERY_MS = 1_000;

/** The nodes of this installation as the database has them, which is all that they trust each other by. */
export class KnownNodes {
  readonly #db: Db;
  readonly #clock: Clock;
  #read: { at: number; nodes: Promise<KnownNode[]> } | undefined;
  #next: Promise<KnownNode[]> | undefined;

  constructor({ db, clock }: { db: Db; clock: Clock }) {
    this.#db = db;
    this.#clock = clock;
  }

  /** Those that live at this moment, this one among them. */
  list(): Promise<KnownNode[]> {
    return listNodes(this.#db);
  }

  /** The living node with this certificate. Rejects when the database does not answer. */
  async byFingerprint(fingerprint: string): Promise<KnownNode | undefined> {
    const of = (nodes: readonly KnownNode[]): KnownNode | undefined => nodes.find(({ tls_fingerprint }) => tls_fingerprint === fingerprint);
    const read = this.#read;
    // Read a moment ago: one that has started since then is looked up anew.
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

  /** Once for all who wait for it. */
  #readNext(): Promise<KnownNode[]> {
    this.#next ??= this.#clock.sleep(ASK_EVERY_MS - this.#age(this.#read?.at ?? 0)).then(() => {
      this.#next = undefined;
      return this.#readNow();
    });
    return this.#next;
  }
}
