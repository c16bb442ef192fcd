import { pipeline } from "node:stream/promises";
import type pg from "pg";
import { from as copyFrom, to as copyTo } from "pg-copy-streams";
import type { Log } from "./log.ts";

interface Table {
  /** Schema and name, quoted. */
  name: string;
  /** "p" for a partitioned table, which holds no rows itself. */
  kind: "r" | "p";
  /** Parent and bound, for a partition. */
  parent: string | null;
  bound: string | null;
  /** How deep below its root partitioned table. */
  depth: number;
  /** Names, types and generation of the columns, in order. */
  columns: { name: string; type: string; generated: boolean }[];
}

const TABLES = `
  with recursive place as (
    select c.oid, 0 as depth from pg_class c where not c.relispartition
    union all
    select i.inhrelid, place.depth + 1 from pg_inherits i join place on place.oid = i.inhparent join pg_class c on c.oid = i.inhrelid where c.relispartition
  )
  select format('%I.%I', n.nspname, c.relname) as name, c.relkind::text as kind, place.depth,
    (select format('%I.%I', pn.nspname, p.relname) from pg_inherits i join pg_class p on p.oid = i.inhparent join pg_namespace pn on pn.oid = p.relnamespace
      where i.inhrelid = c.oid and c.relispartition) as parent,
    pg_get_expr(c.relpartbound, c.oid) as bound,
    (select coalesce(json_agg(json_build_object('name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod), 'generated', a.attgenerated <> '') order by a.attnum), '[]')
      from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join place on place.oid = c.oid
  where c.relkind in ('r', 'p') and c.relpersistence <> 't' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_toast'
  order by place.depth, 1`;

const SEQUENCES =
  "select format('%I.%I', schemaname, sequencename) as name, last_value::text as value from pg_sequences where last_value is not null";

/** The same value has the same text on both sides. */
const SAME_TEXT =
  "set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set timezone = 'UTC'; set extra_float_digits = 1; set bytea_output = 'hex'";

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
  const tables = await alignTables(source, target);
  const leaves = tables.filter(({ kind }) => kind === "r");
  if (tables.length > 0) await target.query(`truncate ${tables.map(({ name }) => name).join(", ")}`);
  for (const table of leaves) await copyRows(source, target, table);
  for (const { name, value } of (await source.query<{ name: string; value: string }>(SEQUENCES)).rows) {
    await target.query("select setval($1::regclass, $2)", [name, value]);
  }
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

/** Gives the target the source's partitions and proves that every table has the same columns. */
async function alignTables(source: pg.Client, target: pg.Client): Promise<Table[]> {
  const wanted = (await source.query<Table>(TABLES)).rows;
  const names = new Set(wanted.map(({ name }) => name));
  for (const { name, parent } of (await target.query<Table>(TABLES)).rows) {
    if (parent !== null && !names.has(name)) await target.query(`drop table if exists ${name}`);
  }
  let present = new Set((await target.query<Table>(TABLES)).rows.map(({ name }) => name));
  for (const { name, parent, bound, kind } of wanted) {
    if (parent === null || present.has(name)) continue;
    if (kind === "p") throw new Error(`${name} is a partition with partitions of its own, which cannot be made here`);
    await target.query(`create table ${name} partition of ${parent} ${bound}`);
  }
  const made = new Map((await target.query<Table>(TABLES)).rows.map((table) => [table.name, table]));
  present = new Set(made.keys());
  for (const table of wanted) {
    const same = made.get(table.name);
    if (!same || JSON.stringify(same) !== JSON.stringify(table))
      throw new Error(`${table.name} is not the same table in the new database: was it changed by hand?`);
    present.delete(table.name);
  }
  for (const name of present) throw new Error(`${name} is in the new database only`);
  return wanted;
}

async function copyRows(source: pg.Client, target: pg.Client, { name, columns }: Table): Promise<void> {
  const list = columns
    .filter(({ generated }) => !generated)
    .map((column) => column.name)
    .join(", ");
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
