import assert from "node:assert/strict";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { createTestDatabase, silentLog } from "../../packages/server/src/engines/db/testing/index.ts";
import { migrate, MIGRATIONS_DIRECTORY } from "../../packages/server/src/engines/db/index.ts";
import { int, row, sql } from "../../packages/server/src/kernel/sql.ts";
import { databaseUrl, ServerProcess } from "../processes/server-process.ts";

const LIMIT = { timeout: 300_000 };

/** A migration of a later version. Programs that do not use its additions can ignore them. */
const EXPAND = `
  alter table robot add column serial_number text;
  alter table site add column opened_at timestamptz not null default now();
  create table robot_part (org_id text not null, robot_id text not null, name text not null, primary key (org_id, robot_id, name),
    foreign key (org_id, robot_id) references robot (org_id, id) on delete cascade);
  alter table robot_part enable row level security;
  create policy tenant on robot_part using (org_id = current_setting('app.org', true));
  grant select, insert, update, delete on robot_part to pg_database_owner;`;

test("the server runs and starts on a database that the next version has migrated", LIMIT, async (t) => {
  await using own = new AsyncDisposableStack();
  const database = await createTestDatabase();
  own.defer(() => database.drop());
  const directory = await mkdtemp(path.join(tmpdir(), "roamfleet-next-"));
  own.defer(() => rm(directory, { recursive: true, force: true }));
  await cp(MIGRATIONS_DIRECTORY, directory, { recursive: true });
  await writeFile(path.join(directory, "9999_expand_robot_parts.sql"), EXPAND);

  const server = own.use(await ServerProcess.start({ nodes: 1, env: { DATABASE_URL: databaseUrl(database.connection) } }));
  const { api } = await server.org("Upgraded");
  const before = (await api.createSite({ body: { name: "Before" } })).data;
  assert.deepEqual(await migrate(database.connection, { directory, log: silentLog }), ["9999_expand_robot_parts"]);

  const works = async (name: string): Promise<void> => {
    const site = (await api.createSite({ body: { name } })).data;
    await api.createFleet({ body: { name: `${name} carts`, site_id: site.id } });
    assert.equal((await api.getSite({ params: { id: before.id } })).data.name, "Before");
    assert.ok((await api.listSites({})).items.some(({ id }) => id === site.id));
    assert.deepEqual((await api.listRobots({})).items, []);
  };
  await works("Under it");
  assert.equal(await server.program.stop(), 0);
  await server.restart();
  await works("Started on it");
  assert.match(server.program.output, /the database is one version newer than this program/);
  const db = await database.connect();
  assert.equal((await db.one(sql(row({ n: int }))`select count(*)::int as n from site where opened_at is not null`)).n, 3);
  t.diagnostic("a server served and started on a schema one version ahead");
});
