import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { bool, int, row, sql, text } from "../../kernel/sql.ts";
import { connect, type Db, type DbEngine, migrate, MIGRATIONS_DIRECTORY } from "./index.ts";
import { createTestDatabase, silentLog, type TestDatabase } from "./testing/index.ts";

const LIMIT = { timeout: 120_000 };
const nameRow = row({ name: text });
const now = new Date("2030-01-01T00:00:00Z");
/** Tables of the whole service. A browser's session belongs to a user, who may have several orgs. */
const OF_EVERYBODY = ["metric_shard", "retention_clock", "node", "user_account", "web_session"];

let database: TestDatabase;
before(async () => void (database = await createTestDatabase()));
after(() => database.drop());

const makeOrg = (db: Db, id: string) =>
  db.run(sql`insert into org (id, name, status, created_at, updated_at) values (${id}, ${id}, 'active', ${now}, ${now})`);
const makeSite = (db: Db, org_id: string, name: string) =>
  db.run(sql`insert into site (org_id, id, name, created_at, updated_at) values (${org_id}, ${name}, ${name}, ${now}, ${now})`);
const sites = async (db: Db) => (await db.many(sql(nameRow)`select name from site order by name`)).map(({ name }) => name);

async function makeTwoOrgs(db: DbEngine): Promise<void> {
  for (const org_id of ["org_a", "org_b"]) {
    await makeOrg(db, org_id);
    await makeSite(db.forOrg(org_id), org_id, `site of ${org_id}`);
  }
}

test("every table with an org_id has row-level security", LIMIT, async () => {
  const tableRow = row({ name: text, has_org: bool, guarded: bool, policies: int, open: bool });
  const db = await database.connect();
  const tables = await db.many(sql(tableRow)`
    select c.relname::text as name, c.relrowsecurity as guarded,
      exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id') as has_org,
      (select count(*)::int from pg_policy p where p.polrelid = c.oid and p.polcmd = '*'
        and pg_get_expr(p.polqual, p.polrelid) ~ '^\\((org_)?id = current_setting\\(''app.org''::text, true\\)\\)$') as policies,
      has_table_privilege('pg_database_owner', c.oid, 'select, insert, update, delete') as open
    from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'schema_migration'`);
  assert.ok(tables.length > 20);
  for (const { name, has_org, guarded, policies, open } of tables) {
    if (OF_EVERYBODY.includes(name)) continue;
    assert.ok(has_org || name === "org", `${name} has no org_id`);
    assert.deepEqual({ guarded, policies, open }, { guarded: true, policies: 1, open: true }, name);
  }
});

test("a handle for one org accesses only that org's rows, and the system handle all rows", LIMIT, async () => {
  const db = await database.connect();
  await makeTwoOrgs(db);
  const a = db.forOrg("org_a");
  assert.deepEqual(await sites(a), ["site of org_a"]);
  assert.deepEqual(await sites(db), ["site of org_a", "site of org_b"]);
  assert.equal(await a.run(sql`update site set name = 'taken'`), 1);
  assert.equal(await a.run(sql`update site set name = 'taken' where org_id = 'org_b'`), 0);
  assert.equal(await a.run(sql`delete from site where org_id = 'org_b'`), 0);
  await assert.rejects(makeSite(a, "org_b", "planted"), /row-level security/);
  await assert.rejects(a.run(sql`update site set org_id = 'org_b'`), /row-level security/);
  await assert.rejects(a.run(sql`truncate site`), /permission denied/);
  await assert.rejects(
    a.transaction((tx) => makeSite(tx, "org_b", "planted")),
    /row-level security/,
  );
  assert.deepEqual(await sites(db), ["site of org_b", "taken"]);
  assert.deepEqual(await sites(db.forOrg("org_c")), []);
  assert.throws(() => db.forOrg(""), /empty/);
});

test("a pooled connection never returns rows of the previous org, even after errors and lost transactions", LIMIT, async () => {
  await using own = await createTestDatabase();
  const db = await own.connect({ pool_size: 2 });
  await makeTwoOrgs(db);
  const failures: ((org: Db) => Promise<unknown>)[] = [
    (org) => org.run(sql`select 1 / 0`),
    (org) => org.transaction((tx) => tx.run(sql`select 1 / 0`)),
    (org) =>
      org.transaction(async (tx) => {
        await tx.run(sql`select set_config('app.org', 'org_b', false)`);
        throw new Error("never mind");
      }),
    (org) => org.run(sql`select pg_terminate_backend(pg_backend_pid())`),
  ];
  for (const fail of failures) {
    for (const org_id of ["org_a", "org_b", "org_a"]) {
      await assert.rejects(fail(db.forOrg(org_id)));
      for (const next of ["org_a", "org_b"]) assert.deepEqual(await sites(db.forOrg(next)), [`site of ${next}`]);
    }
  }
  const many = Array.from({ length: 200 }, (_, i) => (i % 3 === 0 ? "org_a" : "org_b"));
  const seen = await Promise.all(many.map((org_id) => sites(db.forOrg(org_id))));
  assert.deepEqual(
    seen,
    many.map((org_id) => [`site of ${org_id}`]),
  );
});

test("row-level security works for a non-superuser who owns the database, and refuses other users", LIMIT, async () => {
  const admin = await database.connect();
  const names = ["managed", "stranger"].map((name) => `${name}_${process.pid}`) as [string, string];
  const [owner, stranger] = names;
  for (const name of names) await admin.run({ text: `create role ${name} login`, name: undefined, values: [], row: undefined });
  await using own = await createTestDatabase({ empty: true });
  const in_own = await own.connect();
  await in_own.run({ text: `alter database ${own.connection.database} owner to ${owner}`, name: undefined, values: [], row: undefined });
  const connection = { ...own.connection, user: owner };
  await migrate(connection, { directory: MIGRATIONS_DIRECTORY, log: silentLog });
  const db = await connect({ connection, clock: systemClock, log: silentLog });
  try {
    await makeTwoOrgs(db);
    assert.deepEqual(await sites(db.forOrg("org_a")), ["site of org_a"]);
    assert.deepEqual(await sites(db), ["site of org_a", "site of org_b"]);
    await assert.rejects(makeSite(db.forOrg("org_a"), "org_b", "planted"), /row-level security/);
    await assert.rejects(
      connect({ connection: { ...connection, user: stranger }, clock: systemClock, log: silentLog }),
      /must own the database/,
    );
  } finally {
    await db.close();
    await in_own.run({ text: `reassign owned by ${owner} to current_user`, name: undefined, values: [], row: undefined });
    await in_own.run({ text: `drop owned by ${owner}`, name: undefined, values: [], row: undefined });
    for (const name of names) await admin.run({ text: `drop role ${name}`, name: undefined, values: [], row: undefined });
  }
});
