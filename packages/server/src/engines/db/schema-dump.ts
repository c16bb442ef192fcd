import { bool, nullable, row, sql, text } from "../../kernel/sql.ts";
import type { Db } from "./pool.ts";

const tableRow = row({ name: text, partition_key: nullable(text) });
const columnRow = row({ table_name: text, name: text, type: text, required: bool, default_value: nullable(text) });
const constraintRow = row({ table_name: text, name: text, definition: text });
const indexRow = row({ table_name: text, definition: text });

const policyRow = row({ table_name: text, definition: text });

const HEADER = `-- The whole schema after all migrations, for reading; the migrations create it.
-- Written by dumpSchema. A test compares this file with a migrated database; with UPDATE_SCHEMA=1 it rewrites the file.
`;

/**
 * Dumps the schema of a database as text: sequences, functions, and tables with columns, constraints, indexes, row-level security and
 * triggers, sorted by name.
 * Equal schemas give equal text on any PostgreSQL version and after any order of migrations. Partitions and the table of migrations are
 * omitted.
 */
export async function dumpSchema(db: Db): Promise<string> {
  const columns = groupByTable(await db.many(selectColumns));
  const constraints = groupByTable(await db.many(selectConstraints));
  const indexes = groupByTable(await db.many(selectIndexes));
  const policies = groupByTable(await db.many(selectPolicies));
  const triggers = groupByTable(await db.many(selectTriggers));
  const tables = (await db.many(selectTables)).map(({ name, partition_key }) => {
    const lines = [
      ...(columns.get(name) ?? []).map(
        (column) =>
          `${column.name} ${column.type}${column.required ? " not null" : ""}${column.default_value === null ? "" : ` default ${column.default_value}`}`,
      ),
      ...(constraints.get(name) ?? []).map((constraint) => `constraint ${constraint.name} ${constraint.definition}`),
    ];
    const partitioned = partition_key === null ? "" : ` partition by ${partition_key}`;
    const after = [indexes, policies, triggers]
      .flatMap((of): { definition: string }[] => of.get(name) ?? [])
      .map(({ definition }) => `${definition};\n`);
    return `\ncreate table ${name} (\n${lines.map((line) => `  ${line}`).join(",\n")}\n)${partitioned};\n${after.join("")}`;
  });
  const sequences = (await db.many(selectSequences)).map(({ definition }) => `\n${definition};\n`);
  const functions = (await db.many(selectFunctions)).map(({ definition }) => `\n${definition.trimEnd()};\n`);
  return HEADER + sequences.join("") + functions.join("") + tables.join("");
}

function groupByTable<R extends { table_name: string }>(rows: readonly R[]): Map<string, R[]> {
  return Map.groupBy(rows, (of) => of.table_name);
}

const selectTables = sql(tableRow)`
  select c.relname::text as name, pg_get_partkeydef(c.oid) as partition_key
  from pg_class c
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'schema_migration'
  order by c.relname`;

/** Sequences with their grants. */
const selectSequences = sql(row({ definition: text }))`
  select 'create sequence ' || c.relname || coalesce((
    select string_agg(';' || chr(10) || 'grant ' || lower(g.privilege_type) || ' on sequence ' || c.relname || ' to ' || g.grantee::regrole, '' order by g.grantee::regrole::text, g.privilege_type)
    from aclexplode(c.relacl) g where g.grantee <> c.relowner and g.grantee <> 0), '') as definition
  from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'S' and not exists (
    select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i'))
  order by c.relname`;

const selectFunctions = sql(row({ definition: text }))`
  select pg_get_functiondef(oid) as definition from pg_proc where pronamespace = 'public'::regnamespace order by proname`;

const selectTriggers = sql(row({ table_name: text, definition: text }))`
  select c.relname::text as table_name, pg_get_triggerdef(t.oid, true) as definition
  from pg_trigger t join pg_class c on c.oid = t.tgrelid
  where c.relnamespace = 'public'::regnamespace and not t.tgisinternal order by c.relname, t.tgname`;

const selectColumns = sql(columnRow)`
  select c.relname::text as table_name, a.attname::text as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as required,
    pg_get_expr(d.adbin, d.adrelid, true) as default_value
  from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
  order by c.relname, a.attnum`;

/** Constraints except NOT NULL, which the dump shows at the column. PostgreSQL 18 and newer list it as a constraint (contype n). */
const selectConstraints = sql(constraintRow)`
  select c.relname::text as table_name, k.conname::text as name, pg_get_constraintdef(k.oid, true) as definition
  from pg_constraint k join pg_class c on c.oid = k.conrelid
  where c.relnamespace = 'public'::regnamespace and k.contype <> 'n'
  order by c.relname, case k.contype when 'p' then 1 when 'u' then 2 when 'f' then 3 else 4 end, k.conname`;

const selectIndexes = sql(indexRow)`
  select c.relname::text as table_name, pg_get_indexdef(i.indexrelid, 0, true) as definition
  from pg_index i join pg_class c on c.oid = i.indrelid join pg_class x on x.oid = i.indexrelid
  where c.relnamespace = 'public'::regnamespace and not exists (select from pg_constraint k where k.conindid = i.indexrelid and k.conrelid = i.indrelid)
  order by c.relname, x.relname`;

/** Whether row-level security is enabled, its policies, and the grants to roles other than the owner. */
const selectPolicies = sql(policyRow)`
  select table_name, definition from (
    select c.relname::text as table_name, 1 as place, '' as name, 'alter table ' || c.relname || case when c.relforcerowsecurity then ' force' else ' enable' end || ' row level security' as definition
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relrowsecurity and not c.relispartition
    union all
    select c.relname::text, 2, p.polname::text,
      'create policy ' || p.polname || ' on ' || c.relname || case p.polcmd when 'r' then ' for select' when 'a' then ' for insert' when 'w' then ' for update' when 'd' then ' for delete' else '' end
        || coalesce(' using (' || pg_get_expr(p.polqual, p.polrelid, true) || ')', '') || coalesce(' with check (' || pg_get_expr(p.polwithcheck, p.polrelid, true) || ')', '')
    from pg_policy p join pg_class c on c.oid = p.polrelid where c.relnamespace = 'public'::regnamespace and not c.relispartition
    union all
    select c.relname::text, 3, g.grantee::regrole::text,
      'grant ' || string_agg(lower(g.privilege_type), ', ' order by g.privilege_type) || ' on ' || c.relname || ' to ' || g.grantee::regrole
    from pg_class c cross join lateral aclexplode(c.relacl) g
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and g.grantee <> c.relowner and g.grantee <> 0
    group by c.relname, g.grantee) of_table
  order by table_name, place, name`;
