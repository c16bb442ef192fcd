import assert from "node:assert/strict";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { withClient } from "../../packages/server/src/engines/db/with-client.ts";
import { dumpSchema, migrate, MIGRATIONS_DIRECTORY } from "../../packages/server/src/engines/db/index.ts";
import { MIGRATION_TABLE, migrationsIn } from "../../packages/server/src/engines/db/migrate.ts";
import { createTestDatabase, silentLog, type TestDatabase } from "../../packages/server/src/engines/db/testing/index.ts";
import { listTables } from "../../packages/server/src/engines/db/tables.ts";
import { insertEveryRow } from "../processes/every-row.ts";

const TIMEOUT = { timeout: 240_000 };
const AT = new Date("2030-01-01T00:00:00Z");

type Row = Record<string, unknown>;

/** Returns every row of every table as JSON. */
const jsonRowsOf = (connection: TestDatabase["connection"]): Promise<Map<string, Row[]>> =>
  withClient(connection, async (client) => {
    const rows = new Map<string, Row[]>();
    for (const { name, kind } of await listTables(client, "public"))
      if (kind === "r")
        rows.set(
          name,
          (await client.query<{ row: Row }>(`select to_jsonb(t) as row from only ${name} t`)).rows.map(({ row }) => row),
        );
    return rows;
  });

const keeps = (row: Row, before: Row): boolean =>
  Object.entries(before).every(([column, value]) => JSON.stringify(row[column]) === JSON.stringify(value));

test("upgrades a database from every earlier migration without losing a row of any table", TIMEOUT, async (t) => {
  const names = [...(await migrationsIn(MIGRATIONS_DIRECTORY))].toSorted();
  await using newest = await createTestDatabase();
  const schema = await dumpSchema(await newest.connect());
  for (const [index, last] of names.slice(0, -1).entries()) {
    await using database = await createTestDatabase({ empty: true });
    const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-earlier-"));
    t.after(() => rm(directory, { recursive: true, force: true }));
    for (const name of names.slice(0, index + 1))
      await cp(path.join(MIGRATIONS_DIRECTORY, `${name}.sql`), path.join(directory, `${name}.sql`));
    await migrate(database.connection, { directory, log: silentLog });
    await insertEveryRow(database.connection, { at: AT });
    const before = await jsonRowsOf(database.connection);
    const empty = [...before].filter(([name, rows]) => rows.length === 0 && !name.endsWith(`.${MIGRATION_TABLE}`)).map(([name]) => name);
    assert.deepEqual(empty, [], "every table has a row");
    assert.deepEqual(
      await migrate(database.connection, { directory: MIGRATIONS_DIRECTORY, log: silentLog }),
      names.slice(index + 1),
      `from ${last}`,
    );
    const after = await jsonRowsOf(database.connection);
    for (const [name, rows] of before)
      for (const row of rows)
        assert.ok(
          after.get(name)?.some((now) => keeps(now, row)),
          `from ${last}: a row of ${name} is as it was: ${JSON.stringify({ row, now: after.get(name) })}`,
        );
    assert.equal(after.get("public.retention_clock")?.length, 1, "the last known time is that of the newest row");
    assert.equal(await dumpSchema(await database.connect()), schema, `from ${last}: the schema is that of a new database`);
  }
});
