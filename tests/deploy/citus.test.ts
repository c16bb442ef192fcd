import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { root } from "../../bin/launch.mjs";
import { createTestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { bool, jsonb, nullable, row, sql, text } from "../../packages/server/src/kernel/sql.ts";

/** Checks deploy/citus/distribute.sql against the rules of Citus for keys, with the catalog of a migrated PostgreSQL. Citus is not needed. */

const LIMIT = { timeout: 120_000 };
const DDL = readFileSync(path.join(root, "deploy/citus/distribute.sql"), "utf8");
/** Tables that only the coordinator has. */
const LOCAL = ["schema_migration"];
/** What deploy/citus/README.md lists as obstacles: see the reasons there. */
const TABLES_WITH_TRIGGERS = ["health_snapshot", "robot", "robot_app", "robot_config"];
const TABLES_WITH_SEQUENCES = ["config_version", "deployment", "robot", "robot_follow"];

interface Table {
  columns: string[];
  /** Columns of each unique index. An expression is null. */
  unique: Record<string, (string | null)[]>;
  /** Foreign keys by name: the referenced table, and pairs of columns. */
  references: Record<string, { table: string; columns: [own: string, other: string][] }>;
  has_trigger: boolean;
  sequence: string | null;
}

const tableRow = row({
  name: text,
  columns: jsonb<Table["columns"]>(),
  unique: jsonb<Table["unique"]>(),
  references: jsonb<Table["references"]>(),
  has_trigger: bool,
  sequence: nullable(text),
});

/** Returns the tables without partitions, which follow their parent. */
async function readCatalog(): Promise<Map<string, Table>> {
  await using database = await createTestDatabase();
  const db = await database.connect();
  const rows = await db.many(sql(tableRow)`
    select c.relname::text as name,
      (select jsonb_agg(a.attname) from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
      coalesce((select jsonb_object_agg(i.indexrelid::regclass::text, (
          select jsonb_agg(a.attname) from unnest(i.indkey::int[]) k left join pg_attribute a on a.attrelid = c.oid and a.attnum = k and k > 0))
        from pg_index i where i.indrelid = c.oid and i.indisunique), '{}') as unique,
      coalesce((select jsonb_object_agg(f.conname, jsonb_build_object('table', f.confrelid::regclass::text, 'columns', (
          select jsonb_agg(jsonb_build_array(a.attname, b.attname)) from unnest(f.conkey, f.confkey) k (own, other)
          join pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.own join pg_attribute b on b.attrelid = f.confrelid and b.attnum = k.other)))
        from pg_constraint f where f.conrelid = c.oid and f.contype = 'f'), '{}') as references,
      exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal) as has_trigger,
      (select min(pg_get_expr(d.adbin, d.adrelid)) from pg_attrdef d where d.adrelid = c.oid and pg_get_expr(d.adbin, d.adrelid) ~ 'nextval') as sequence
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`);
  return new Map(rows.map(({ name, ...table }) => [name, table]));
}

interface Plan {
  /** Placed tables in the order of the file, with the distribution column; undefined for a reference table. */
  placed: Map<string, string | undefined>;
  dropped: Set<string>;
}

function readPlan(ddl: string): Plan {
  const placed: Plan["placed"] = new Map();
  for (const [, table = "", column] of ddl.matchAll(/^select create_(?:reference|distributed)_table\('(\w+)'(?:, '(\w+)'.*)?\);$/gm))
    placed.set(table, column);
  const dropped = [...ddl.matchAll(/^alter table (\w+) drop constraint (\w+);$/gm)].map(([, table, name]) => `${table}.${name}`);
  return { placed, dropped: new Set(dropped) };
}

/** Returns what Citus would refuse. */
function findProblems(tables: ReadonlyMap<string, Table>, { placed, dropped }: Plan): string[] {
  const problems = [...placed.keys()].filter((name) => !tables.has(name)).map((name) => `${name} does not exist`);
  const order = [...placed.keys()];
  for (const [name, { columns, unique, references }] of tables) {
    if (LOCAL.includes(name)) continue;
    if (!placed.has(name)) {
      problems.push(`${name} is not in deploy/citus/distribute.sql`);
      continue;
    }
    const by = placed.get(name);
    if (by !== undefined && !columns.includes(by)) problems.push(`${name} has no column ${by}`);
    for (const [index, of] of Object.entries(unique))
      if (by !== undefined && !of.includes(by)) problems.push(`the unique index ${index} of ${name} lacks ${by}`);
    for (const [constraint, { table, columns: pairs }] of Object.entries(references)) {
      if (dropped.delete(`${name}.${constraint}`)) continue;
      const other = placed.get(table);
      const is_colocated = other === undefined || pairs.some(([a, b]) => a === by && b === other);
      if (!is_colocated) problems.push(`${constraint} of ${name} leads to ${table}, which is on another worker`);
      if (order.indexOf(table) > order.indexOf(name)) problems.push(`${name} is distributed before ${table}, which it references`);
    }
  }
  return [...problems, ...[...dropped].map((constraint) => `${constraint} does not exist`)];
}

test("distribute.sql distributes or replicates each table as its keys allow", LIMIT, async () => {
  const tables = await readCatalog();
  assert.ok(tables.size > 40);
  assert.deepEqual(findProblems(tables, readPlan(DDL)), []);
  const having = (has: (table: Table) => boolean): string[] =>
    [...tables].flatMap(([name, table]) => (has(table) && !LOCAL.includes(name) ? [name] : [])).toSorted();
  assert.deepEqual(
    having(({ has_trigger }) => has_trigger),
    TABLES_WITH_TRIGGERS,
  );
  assert.deepEqual(
    having(({ sequence }) => sequence !== null),
    TABLES_WITH_SEQUENCES,
  );
});

test("finds a table without a place, a unique index without the org, and foreign keys to other workers", () => {
  const table = (parts: Partial<Table>): Table => ({
    columns: ["org_id", "id"],
    unique: {},
    references: {},
    has_trigger: false,
    sequence: null,
    ...parts,
  });
  const tables = new Map([
    ["a", table({ unique: { a_key: ["id"] } })],
    ["b", table({ columns: ["id"], references: { b_a: { table: "a", columns: [["id", "id"]] } } })],
    ["c", table({ references: { c_d: { table: "d", columns: [["org_id", "org_id"]] }, c_gone: { table: "a", columns: [["id", "id"]] } } })],
    ["d", table({})],
    ["e", table({ references: { e_a: { table: "a", columns: [["org_id", "org_id"]] } } })],
  ]);
  const plan = readPlan(`alter table c drop constraint c_gone;
alter table c drop constraint c_old;
select create_distributed_table('a', 'org_id');
select create_distributed_table('b', 'org_id', colocate_with => 'a');
select create_distributed_table('c', 'org_id', colocate_with => 'a');
select create_distributed_table('d', 'org_id', colocate_with => 'a');
select create_reference_table('f');
`);
  assert.deepEqual(findProblems(tables, plan).toSorted(), [
    "b has no column org_id",
    "b_a of b leads to a, which is on another worker",
    "c is distributed before d, which it references",
    "c.c_old does not exist",
    "e is not in deploy/citus/distribute.sql",
    "f does not exist",
    "the unique index a_key of a lacks org_id",
  ]);
});
