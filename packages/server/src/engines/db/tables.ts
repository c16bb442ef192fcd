import type pg from "pg";

/** A table as described in PostgreSQL's catalog. */
export interface Table {
  /** Name of the table with its schema, quoted. */
  name: string;
  /** "p" for a partitioned table, which contains no rows itself. */
  kind: "r" | "p";
  /** The partitioned parent table; `bound` is the FOR VALUES clause. Both are null if this table is not a partition. */
  parent: string | null;
  bound: string | null;
  /** Number of levels between the table and its root partitioned table. */
  depth: number;
  /** Name and type of each column, and whether it is generated, in order. */
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
    and ($1::text is null or n.nspname = $1)
  order by place.depth, 1`;

const SEQUENCES =
  "select format('%I.%I', schemaname, sequencename) as name, last_value::text as value from pg_sequences where last_value is not null";

/** Session settings that give equal values equal text in two databases. */
export const SAME_TEXT =
  "set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set timezone = 'UTC'; set extra_float_digits = 1; set bytea_output = 'hex'";

/** Returns every table except PostgreSQL's own, or those of one schema, with partitioned tables before their partitions. */
export const listTables = async (client: pg.Client, schema: string | null = null): Promise<Table[]> =>
  (await client.query<Table>(TABLES, [schema])).rows;

export interface Sequence {
  /** Name of the sequence with its schema, quoted. */
  name: string;
  value: string;
}

/** Returns the sequences that have been used, with their last values. */
export const listSequences = async (client: pg.Client): Promise<Sequence[]> => (await client.query<Sequence>(SEQUENCES)).rows;

export async function setSequences(client: pg.Client, sequences: readonly Sequence[]): Promise<void> {
  for (const { name, value } of sequences) await client.query("select setval($1::regclass, $2)", [name, value]);
}

/** Returns the columns that are not generated, quoted and separated by commas; empty if there are none. */
export const columnList = ({ columns }: Table): string =>
  columns
    .filter(({ generated }) => !generated)
    .map((column) => column.name)
    .join(", ");

/** Matches a partition bound between two dates, or between two midnights. */
const DATE_BOUND = /^FOR VALUES FROM \('(\d{4}-\d\d-\d\d)( 00:00:00\+00)?'\) TO \('(\d{4}-\d\d-\d\d)( 00:00:00\+00)?'\)$/;

/**
 * Returns the bound of a partition as SQL, rebuilt from its two dates. The text itself may come from a backup file and must not be used:
 * PostgreSQL evaluates a bound as an expression.
 *
 * @throws Error for a bound of another form
 */
function boundOf({ name, bound }: Table): string {
  if (bound === "DEFAULT") return "default";
  const [, from, from_midnight = "", to, to_midnight = ""] = DATE_BOUND.exec(bound ?? "") ?? [];
  if (from === undefined || to === undefined) throw new Error(`${name} is a partition whose bounds are not dates`);
  return `for values from ('${from}${from_midnight}') to ('${to}${to_midnight}')`;
}

/** Creates the partitions of `wanted` in the target, and checks that it has exactly those tables with the same columns. */
export async function alignTables(wanted: readonly Table[], target: pg.Client, schema: string | null = null): Promise<void> {
  const names = new Set(wanted.map(({ name }) => name));
  for (const { name, parent } of await listTables(target, schema)) {
    if (parent !== null && !names.has(name)) await target.query(`drop table if exists ${name}`);
  }
  let present = new Set((await listTables(target, schema)).map(({ name }) => name));
  for (const table of wanted) {
    const { name, parent, kind } = table;
    if (parent === null || present.has(name)) continue;
    if (kind === "p") throw new Error(`${name} is a partition with subpartitions, which cannot be created here`);
    await target.query(`create table ${name} partition of ${parent} ${boundOf(table)}`);
  }
  const made = new Map((await listTables(target, schema)).map((table) => [table.name, table]));
  present = new Set(made.keys());
  for (const table of wanted) {
    const same = made.get(table.name);
    if (!same || JSON.stringify(same) !== JSON.stringify(table))
      throw new Error(`${table.name} is not the same table in the new database: was it changed by hand?`);
    present.delete(table.name);
  }
  for (const name of present) throw new Error(`${name} is in the new database only`);
}
