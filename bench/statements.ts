import type { Db } from "../packages/server/src/kernel/db.ts";
import type { Statement } from "../packages/server/src/kernel/sql.ts";

/** A query as accepted by the `pg` driver. */
export interface BareQuery {
  name?: string;
  text: string;
  values: unknown[];
}

/** A database that records statements instead of running them. */
function recorder(): { db: Db; sent: BareQuery[] } {
  const sent: BareQuery[] = [];
  const take =
    <A>(answer: A) =>
    ({ text, name, values }: Statement<unknown>): Promise<A> => {
      sent.push({ text, values: [...values], ...(name === undefined ? {} : { name }) });
      return Promise.resolve(answer);
    };
  const transaction = async <T>(work: (tx: Db) => Promise<T>): Promise<T> => {
    sent.push({ text: "begin", values: [] });
    const last_words: Statement<unknown>[] = [];
    const tx = { ...db, atCommit: async (statement: Statement<unknown>) => void last_words.push(statement) };
    const value = await work(tx);
    for (const statement of last_words) await db.run(statement);
    sent.push({ text: "commit", values: [] });
    return value;
  };
  const ways = {
    many: take([]),
    one: take({}) as unknown as Db["one"],
    maybe: take(undefined),
    run: take(1),
    transaction,
    afterCommit: () => {},
    atCommit: async (statement: Statement<unknown>) => void (await db.run(statement)),
  };
  const db: Db = ways;
  return { db, sent };
}

/**
 * Returns the statements that stores would send, in order, without sending them, so that a limit can run the same statements with the bare
 * driver.
 */
export async function statementsOf(work: (db: Db) => Promise<unknown>): Promise<BareQuery[]> {
  const { db, sent } = recorder();
  await work(db);
  return sent;
}

/** Returns the first statement that a store sends, without waiting. */
export function statementOf(work: (db: Db) => Promise<unknown>): BareQuery {
  const { db, sent } = recorder();
  work(db).catch(() => {}); // ignore errors: the store does not expect the recorder's empty result
  const [first] = sent;
  if (first === undefined) throw new Error("nothing was sent");
  return first;
}
