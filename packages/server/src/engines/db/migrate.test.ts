import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { until } from "@roamfleet/clock/testing";
import { int, row, sql } from "../../kernel/sql.ts";
import { dumpSchema, isConnectionLost, migrate, MIGRATIONS_DIRECTORY } from "./index.ts";
import { Refusal } from "./embedded/index.ts";
import { migrationsIn } from "./migrate.ts";
import { createTestDatabase, silentLog } from "./testing/index.ts";

const FIRST_MIGRATION = "d1aab88edf949223ce439e845df1e53b57d502f7dc5f151b0c9dd497c7c25ff6";
const TIMEOUT = { timeout: 120_000 };
const SCHEMA_FILE = fileURLToPath(new URL("../../../schema.sql", import.meta.url));
const countRow = row({ n: int });

async function directoryWith(files: Record<string, string>) {
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-migrations-"));
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
  return { directory, log: silentLog, [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) };
}

test("schema.sql equals the schema that the migrations create", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  const run = await migrate(database.connection, { directory: MIGRATIONS_DIRECTORY, log: silentLog });
  assert.deepEqual(run, (await readdir(MIGRATIONS_DIRECTORY)).map((file) => file.replace(/\.sql$/, "")).toSorted());
  const schema = await dumpSchema(await database.connect());
  assert.match(schema, /create table org \(/);
  if (process.env["UPDATE_SCHEMA"] === "1") await writeFile(SCHEMA_FILE, schema);
  assert.equal(schema, await readFile(SCHEMA_FILE, "utf8"), "run this test with UPDATE_SCHEMA=1 to rewrite schema.sql");
});

test("the schema dump shows every kind of change, but no partitions", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  const db = await database.connect();
  await db.run(sql`create table a (id text primary key, n int default 3 check (n > 0))`);
  await db.run(sql`create table p (id text not null, at timestamptz not null) partition by range (at)`);
  const dumps = [await dumpSchema(db)];
  for (const change of [
    sql`alter table a alter column n set not null`,
    sql`alter table a alter column n set default 4`,
    sql`alter table a alter column n type bigint`,
    sql`alter table a add constraint big check (n < 100)`,
    sql`create index a_n on a (n) where n > 5`,
    sql`alter table p add foreign key (id) references a (id) on delete cascade`,
    sql`create index p_at on p (at)`,
    sql`create table b (a_id text unique)`,
  ]) {
    await db.run(change);
    dumps.push(await dumpSchema(db));
  }
  assert.equal(new Set(dumps).size, dumps.length);
  await db.run(sql`create table p_2030 partition of p for values from ('2030-01-01') to ('2031-01-01')`);
  assert.equal(await dumpSchema(db), dumps.at(-1));
});

test("a second start runs only new migrations", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using files = await directoryWith({ "0001_first.sql": "create table first (id int); insert into first values (1);" });
  assert.deepEqual(await migrate(database.connection, files), ["0001_first"]);
  assert.deepEqual(await migrate(database.connection, files), []);
  await writeFile(join(files.directory, "0002_second.sql"), "alter table first add column more text;");
  assert.deepEqual(await migrate(database.connection, files), ["0002_second"]);
});

test("refuses a database whose migrations ran in another order", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using files = await directoryWith({
    "0001_first.sql": "create table first (id int);",
    "0002_second.sql": "create table second (id int);",
  });
  await migrate(database.connection, files);
  const db = await database.connect();
  await db.run(sql`update schema_migration set id = 3 where name = '0001_first'`);
  await assert.rejects(migrate(database.connection, files), /0001_first is preceding already run migration 0002_second/);
});

test("refuses a migration that was changed after it ran, and runs no other migration", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using first = await directoryWith({ "0001_first.sql": "create table first (id int);" });
  await migrate(database.connection, first);
  await using changed = await directoryWith({
    "0001_first.sql": "create table first (id bigint);",
    "0002_expand_second.sql": "create table second (id int);",
  });
  await assert.rejects(
    migrate(database.connection, changed),
    (error) => error instanceof Refusal && error.message.startsWith("migration 0001_first of this program differs"),
  );
  const db = await database.connect();
  assert.equal((await db.one(sql(countRow)`select count(*)::int as n from schema_migration`)).n, 1);
  // A migration that ran before checksums were stored gets its checksum now.
  await db.run(sql`update schema_migration set checksum = null`);
  assert.deepEqual(await migrate(database.connection, changed), ["0002_expand_second"]);
  assert.equal((await db.one(sql(countRow)`select count(*)::int as n from schema_migration where checksum is not null`)).n, 2);
});

test("the first migration has not changed since its release", async () => {
  const bytes = await readFile(join(MIGRATIONS_DIRECTORY, "0001_initial.sql"));
  assert.equal(createHash("sha256").update(bytes).digest("hex"), FIRST_MIGRATION, "migrations never change: add a new one");
});

test("runs each migration once when nodes start concurrently", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using files = await directoryWith({
    "0001_slow.sql": "create table slow (id int); select pg_sleep(0.3); insert into slow values (1);",
  });
  const runs = await Promise.all([1, 2, 3].map(() => migrate(database.connection, files)));
  assert.deepEqual(
    runs.toSorted((a, b) => a.length - b.length),
    [[], [], ["0001_slow"]],
  );
  const db = await database.connect();
  assert.equal((await db.one(sql(countRow)`select count(*)::int as n from slow`)).n, 1);
});

test("refuses a database of a newer version without changing it", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using newer = await directoryWith({
    "0001_first.sql": "create table first (id int);",
    "0002_future.sql": "create table future (id int);",
  });
  await migrate(database.connection, newer);
  await using older = await directoryWith({ "0001_first.sql": "create table first (id int);" });
  await assert.rejects(migrate(database.connection, older), /newer version of Roamfleet.*0002_future/);
});

test("accepts a database that is one compatible version ahead, but not two", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  const first = { "0001_first.sql": "create table first (id int);" };
  const second = { "0002_expand_first.sql": "alter table first add column name text;" };
  const third = { "0003_contract_first.sql": "alter table first drop column id;" };
  await using current = await directoryWith(first);
  await using next = await directoryWith({ ...first, ...second });
  await using after_next = await directoryWith({ ...first, ...second, ...third });
  await migrate(database.connection, next);
  assert.deepEqual(await migrate(database.connection, current), []);
  assert.deepEqual(await migrate(database.connection, after_next), ["0003_contract_first"]);
  assert.deepEqual(await migrate(database.connection, next), []);
  await assert.rejects(migrate(database.connection, current), /newer version of Roamfleet.*0002_expand_first, 0003_contract_first/);
});

test("every migration after the first is named as an expand or contract step", async () => {
  const names = [...(await migrationsIn(MIGRATIONS_DIRECTORY))].toSorted().slice(1);
  assert.deepEqual(
    names.filter((name) => !/^\d{4}_(expand|contract)_/.test(name)),
    [],
  );
});

test("a failed migration rolls back all migrations of the same run", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using files = await directoryWith({
    "0001_good.sql": "create table good (id int);",
    "0002_bad.sql": "create table bad (id nosuchtype);",
  });
  await assert.rejects(migrate(database.connection, files), /nosuchtype/);
  const db = await database.connect();
  assert.equal((await db.one(sql(countRow)`select count(*)::int as n from pg_class where relname in ('good', 'bad')`)).n, 0);
  await writeFile(join(files.directory, "0002_bad.sql"), "create table bad (id int);");
  assert.deepEqual(await migrate(database.connection, files), ["0001_good", "0002_bad"]);
});

test("retries the migrations after a deadlock with a running server", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using files = await directoryWith({ "0001_tables.sql": "create table a (); create table b ();" });
  await migrate(database.connection, files);
  await writeFile(join(files.directory, "0002_expand_c.sql"), "lock table a; lock table b; create table c ();");
  const waiting = sql(countRow)`select count(*)::int as n from pg_locks where relation = 'b'::regclass and not granted`;
  const db = await database.connect();
  const server = db.transaction(async (tx) => {
    // Only the migration looks for deadlocks.
    await tx.run(sql`set local deadlock_timeout to '1min'`);
    await tx.run(sql`lock table b`);
    const migrated = migrate(database.connection, files);
    await until("the migration to wait for b", async () => (await db.one(waiting)).n === 1);
    await tx.run(sql`lock table a`);
    return { migrated };
  });
  assert.deepEqual(await (await server).migrated, ["0002_expand_c"]);
});

test("refuses a migrations directory that is empty or contains other files", TIMEOUT, async () => {
  await using database = await createTestDatabase({ empty: true });
  await using stray = await directoryWith({ "0001_a.sql": "select 1;", "0002_a.sql.orig": "select 1;" });
  await assert.rejects(migrate(database.connection, stray), /0002_a\.sql\.orig/);
  await using empty = await directoryWith({});
  await assert.rejects(migrate(database.connection, empty), /no migrations/);
  await using fine = await directoryWith({ "0001_a.sql": "select 1;" });
  await assert.rejects(migrate({ ...database.connection, host: "/nonexistent" }, fine), isConnectionLost);
});
