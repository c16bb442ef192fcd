import type { Connection } from "../../packages/server/src/engines/db/embedded/cluster.ts";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { MIGRATION_TABLE } from "../../packages/server/src/engines/db/migrate.ts";

type Value = string | number | boolean | Date | Buffer | null;
export type Row = Readonly<Record<string, Value>>;

interface Column {
  name: string;
  type: string;
  /** The check constraint with its allowed texts, as PostgreSQL prints it. */
  check: string | null;
  /** The column of another table that this column references. */
  refers_to: { table: string; column: string } | null;
}

/** Values of columns whose check constraint covers several columns. A new table with such a constraint needs a line here. */
const DECIDED: Readonly<Record<string, Row>> = { config_entry: { sealed: null }, config_version: { sealed: null } };

const COLUMNS = `
  select c.relname as table, json_agg(json_build_object(
    'name', a.attname, 'type', format_type(a.atttypid, null),
    'check', (select pg_get_constraintdef(k.oid) from pg_constraint k where k.conrelid = c.oid and k.contype = 'c' and k.conkey = array[a.attnum]
      and pg_get_constraintdef(k.oid) ~ '= ANY' limit 1),
    'refers_to', (select json_build_object('table', k.confrelid::regclass::text, 'column', fa.attname)
      from pg_constraint k join pg_attribute fa on fa.attrelid = k.confrelid and fa.attnum = k.confkey[array_position(k.conkey, a.attnum)]
      where k.conrelid = c.oid and k.contype = 'f' and a.attnum = any(k.conkey) and k.confrelid <> c.oid limit 1)
  ) order by a.attnum) as columns
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and a.attidentity = ''
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> $1
  group by c.relname order by c.relname`;

/**
 * Inserts one row into every table, with a value in every column, and returns the names of the tables. Times are `at`; expiry times are a
 * day later. `given` sets values by table and column. A table that already has its only allowed row keeps it.
 */
export async function insertEveryRow(where: Connection, { at, given = {} }: { at: Date; given?: Record<string, Row> }): Promise<string[]> {
  return withClient(where, async (client) => {
    const { rows } = await client.query<{ table: string; columns: Column[] }>(COLUMNS, [MIGRATION_TABLE]);
    const made = new Map<string, Row>();
    const names = new Set(rows.map(({ table }) => table));
    while (made.size < rows.length) {
      const ready = rows.filter(
        ({ table, columns }) => !made.has(table) && columns.every(({ refers_to }) => refers_to === null || made.has(refers_to.table)),
      );
      if (ready.length === 0) throw new Error(`tables refer to each other: ${[...names].filter((name) => !made.has(name)).join(", ")}`);
      for (const { table, columns } of ready) {
        const row: Row = {
          ...Object.fromEntries(columns.map((column) => [column.name, valueOf(table, column, { at, made })])),
          ...DECIDED[table],
          ...given[table],
        };
        const keys = Object.keys(row);
        const places = keys.map((_, index) => `$${index + 1}`).join(", ");
        await client.query(
          `insert into ${table} (${keys.map((key) => `"${key}"`).join(", ")}) overriding system value values (${places}) on conflict do nothing`,
          Object.values(row),
        );
        made.set(table, row);
      }
    }
    return [...names];
  });
}

function valueOf(table: string, { name, type, check, refers_to }: Column, { at, made }: { at: Date; made: Map<string, Row> }): Value {
  if (refers_to !== null) return made.get(refers_to.table)?.[refers_to.column] ?? null;
  // The same org everywhere, even without a foreign key and before the org is inserted.
  if (name === "org_id") return "org.id";
  const allowed = /'([^']*)'/.exec(check ?? "")?.[1];
  if (allowed !== undefined) return allowed;
  if (type.endsWith("[]")) return "{}";
  if (type === "jsonb" || type === "json") return "{}";
  if (type === "boolean") return false;
  if (type.startsWith("timestamp")) return name === "expires_at" ? new Date(at.getTime() + 86_400_000) : at;
  if (type === "date") return at.toISOString().slice(0, 10);
  if (type === "bytea") return Buffer.from(`${table}.${name}`);
  return type === "text" ? `${table}.${name}` : 1;
}
