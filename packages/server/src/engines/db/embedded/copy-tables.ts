import { pipeline } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { alignTables, columnList, listSequences, listTables, SAME_TEXT, setSequences, type Table } from "../tables.ts";
import type { Log } from "./log.ts";

/**
 * Replaces the contents of every table of `target` by those of `source`, then compares count and checksum of each. Both must have the same
 * schema; partitions are created as in the source. There must be no other connections.
 *
 * @returns how many tables and rows were copied
 * @throws Error that names the first table that differs
 */
export async function copyTables(source: pg.Client, target: pg.Client, log: Log): Promise<{ tables: number; rows: number }> {
  for (const client of [source, target]) await client.query(SAME_TEXT);
  await source.query("begin isolation level repeatable read read only");
  // Foreign keys may form cycles. They are valid in the source, and the comparison proves that the copy is equal.
  await target.query("set session_replication_role = replica");
  const tables = await listTables(source);
  await alignTables(tables, target);
  const leaves = tables.filter(({ kind }) => kind === "r");
  if (tables.length > 0) await target.query(`truncate ${tables.map(({ name }) => name).join(", ")}`);
  for (const table of leaves) await copyRows(source, target, table);
  await setSequences(target, await listSequences(source));
  let rows = 0;
  for (const { name } of leaves) {
    const [was, is] = [await digest(source, name), await digest(target, name)];
    if (was.count !== is.count || was.sum !== is.sum)
      throw new Error(`the copy of ${name} differs: ${was.count} rows became ${is.count}, or their contents changed`);
    rows += Number(is.count);
    log.info({ table: name, rows: Number(is.count) }, "table copied and compared");
  }
  await source.query("commit");
  await target.query("analyze");
  return { tables: leaves.length, rows };
}

async function copyRows(source: pg.Client, target: pg.Client, table: Table): Promise<void> {
  const { name } = table;
  const list = columnList(table);
  if (list === "") return;
  const reading = source.query(copyTo(`copy ${name} (${list}) to stdout`));
  const writing = target.query(copyFrom(`copy ${name} (${list}) from stdin`));
  await pipeline(reading, writing);
}

/** Returns the row count and an order-independent checksum of a table's rows, as text. */
async function digest(client: pg.Client, name: string): Promise<{ count: string; sum: string }> {
  const { rows } = await client.query<{ count: string; sum: string }>(
    `select count(*)::text as count, coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text as sum from only ${name} t`,
  );
  return rows[0] ?? { count: "", sum: "" };
}
