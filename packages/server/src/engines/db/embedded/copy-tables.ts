import { pipeline } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import { alignTables, columnList, listSequences, listTables, SAME_TEXT, setSequences, type Table } from "../tables.ts";
import type { Log } from "./log.ts";

/**
 * Makes every table of `target` hold exactly what it holds in `source`, then compares count and checksum of each.
 * Both have the same schema; partitions, which come and go, are made as in the source. Nobody else is connected.
 *
 * @returns how many tables and rows were copied
 * @throws Error that names the first table that differs
 */
export async function copyTables(source: pg.Client, target: pg.Client, log: Log): Promise<{ tables: number; rows: number }> {
  for (const client of [source, target]) await client.query(SAME_TEXT);
  await source.query("begin isolation level repeatable read read only");
  // Foreign keys may form circles: they hold in the source, and the comparison proves the copy equal.
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

/** Count and an order-free checksum of a table's rows, as text. */
async function digest(client: pg.Client, name: string): Promise<{ count: string; sum: string }> {
  const { rows } = await client.query<{ count: string; sum: string }>(
    `select count(*)::text as count, coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)::text as sum from only ${name} t`,
  );
  return rows[0] ?? { count: "", sum: "" };
}
