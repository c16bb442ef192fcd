import { ConnectionLost } from "../../../packages/server/src/engines/db/errors.ts";
import type { Db, SystemDb } from "../../../packages/server/src/kernel/db.ts";
import type { Fate } from "../server.ts";
import type { DbEngine } from "../../../packages/server/src/engines/db/index.ts";

/**
 * The database of a server that may be killed in a given transaction: before the commit is durable, or right after. From then on every call
 * of the server's code fails.
 */
export class MortalDb implements DbEngine {
  readonly #db: SystemDb;
  #fate: Fate = "lives";
  #transactions_left = 0;
  dead = false;
  /** Whether something may have been written since this was last set to false. */
  written = true;

  constructor(db: SystemDb) {
    this.#db = db;
  }

  readonly load = { in_use: 0, waiting: 0 };
  ready = (): Promise<boolean> => Promise.resolve(!this.dead);
  close = (): Promise<void> => Promise.resolve();

  /** Sets the outcome of a later transaction. The next `transactions` transactions complete normally before it. */
  doom(fate: Fate, transactions: number): void {
    this.#fate = fate;
    this.#transactions_left = transactions;
  }

  forOrg(org_id: string): Db {
    return this.#wrap(this.#db.forOrg(org_id));
  }

  many: Db["many"] = (statement) => this.#alive(() => this.#db.many(statement));
  one: Db["one"] = (statement) => this.#alive(() => this.#db.one(statement));
  maybe: Db["maybe"] = (statement) => this.#alive(() => this.#db.maybe(statement));
  run: Db["run"] = (statement) => this.#alive(() => this.#writing(() => this.#db.run(statement)));
  atCommit: Db["atCommit"] = (statement) => this.#alive(() => this.#db.atCommit(statement));
  transaction: Db["transaction"] = (work) => this.#transaction(this.#db, work);

  afterCommit(effect: () => void): void {
    if (!this.dead) this.#db.afterCommit(effect);
  }

  #wrap(db: Db): Db {
    return {
      many: (statement) => this.#alive(() => db.many(statement)),
      one: (statement) => this.#alive(() => db.one(statement)),
      maybe: (statement) => this.#alive(() => db.maybe(statement)),
      run: (statement) => this.#alive(() => this.#writing(() => db.run(statement))),
      atCommit: (statement) => this.#alive(() => db.atCommit(statement)),
      transaction: (work) => this.#transaction(db, work),
      afterCommit: (effect) => {
        if (!this.dead) db.afterCommit(effect);
      },
    };
  }

  async #alive<T>(work: () => Promise<T>): Promise<T> {
    if (this.dead) throw new ConnectionLost("the server was killed");
    return await work();
  }

  #writing<T>(work: () => Promise<T>): Promise<T> {
    this.written = true;
    return work();
  }

  async #transaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
    if (this.dead) throw new ConnectionLost("the server was killed");
    this.written = true;
    const last = this.#fate !== "lives" && this.#transactions_left === 0;
    this.#transactions_left -= 1;
    if (!last) return await db.transaction(work);
    const value = await db.transaction(async (tx) => {
      // Effects after the commit, such as hints, are dropped: the server is killed before them.
      const result = await work({ ...this.#withoutEffects(tx) });
      if (this.#fate === "dies_before_commit") {
        this.dead = true;
        throw new ConnectionLost("the server was killed");
      }
      return result;
    });
    this.dead = true;
    void value;
    throw new ConnectionLost("the server was killed");
  }

  #withoutEffects(tx: Db): Db {
    const joined: Db = {
      many: (statement) => tx.many(statement),
      one: (statement) => tx.one(statement),
      maybe: (statement) => tx.maybe(statement),
      run: (statement) => tx.run(statement),
      atCommit: (statement) => tx.atCommit(statement),
      transaction: (work) => work(joined),
      afterCommit: () => {},
    };
    return joined;
  }
}
