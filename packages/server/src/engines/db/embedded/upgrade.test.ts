import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, rename, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { systemClock } from "@roamfleet/clock";
import { EMBEDDED_MAJOR, findSources, readMajor, SYSTEM_MAJOR_MIN } from "./binaries.ts";
import { withClient } from "../with-client.ts";
import type { Connection } from "./cluster.ts";
import { upgradeDatabase, type UpgradeResult } from "./index.ts";
import { findPostgresOn } from "./postmaster.ts";
import { run } from "./run.ts";
import { copyDatabase, endServer, quietLog, scratch, startOn } from "./testing/scratch.ts";

const TIMEOUT = 120_000;
const sources = findSources();
const OLD = SYSTEM_MAJOR_MIN;
const missing =
  sources.embedded === undefined
    ? "the embedded PostgreSQL package is not installed"
    : (await run(path.join(sources.systemRoot, String(OLD), "bin", "postgres"), ["--version"])).code === 0
      ? false
      : `PostgreSQL ${OLD} is not installed`;

const SCHEMA = `
  create table if not exists migration (id serial primary key, name text);
  insert into migration (name) select 'one' where not exists (select from migration);
  create table if not exists org (id text primary key, robot_id text);
  create table if not exists robot (id text primary key, org_id text not null references org, "Odd ""name""" jsonb, bytes bytea, tags text[],
    seen_at timestamptz, load double precision, size numeric, doubled numeric generated always as (size * 2) stored, number bigint generated always as identity);
  alter table org drop constraint if exists org_robot;
  alter table org add constraint org_robot foreign key (robot_id) references robot deferrable initially deferred;
  alter table robot enable row level security;
  alter table robot force row level security;
  create table if not exists log (day date not null, line text) partition by range (day);
  create table if not exists log_rest partition of log default;
  create table if not exists empty ();`;

const migrate = (connection: Connection): Promise<unknown> => withClient(connection, (client) => client.query(SCHEMA));

const FILL = `
  begin;
  insert into org values ('o1', 'r1'), ('o2', null);
  insert into robot values ('r1', 'o1', '{"a": [1, null, "\\u00e9 😀"]}', '\\x00ff5c0a', array['a,b', null, '{}', E'tab\\there'], 'infinity', 'NaN', 123456789012345678901234567890.123456789),
    ('r2', 'o1', null, '', '{}', '2030-01-01T00:00:00.123456Z', 0.1::float8 + 0.2, -0.5), (E'back\\\\slash\\n\\\\N', 'o2', 'null', null, null, '-infinity', '-0', null);
  create table log_2030 partition of log for values from ('2030-01-01') to ('2031-01-01');
  insert into log select date '2030-01-01' + n % 300, repeat('line ', 20) || n from generate_series(1, 20000) n;
  insert into log values ('1999-01-01', 'old');
  commit;`;

const upgrade = (directory: string, more: object = {}): Promise<UpgradeResult> =>
  upgradeDatabase({ directory, log: quietLog, clock: systemClock, parameters: { fsync: "off" }, migrate, ...more });

describe("upgrade to a newer PostgreSQL", { skip: missing, timeout: 5 * TIMEOUT }, () => {
  let template: Awaited<ReturnType<typeof scratch>>;

  before(async () => {
    template = await scratch();
    const old = await startOn(template.database, {
      sources: { ...sources, embedded: undefined, systemRoot: await onlyOld(template.root) },
    });
    assert.equal(old.major, OLD);
    await migrate(old.connection);
    await withClient(old.connection, (client) => client.query(FILL));
    await old.stop();
  });
  after(() => template[Symbol.asyncDispose]());

  async function fresh(): Promise<Awaited<ReturnType<typeof scratch>>> {
    const place = await scratch();
    await copyDatabase(template.database, place.database);
    return place;
  }

  async function contents(directory: string): Promise<{ major: number; rows: unknown }> {
    const embedded = await startOn(directory);
    const rows = await withClient(embedded.connection, async (client) => {
      const robots = await client.query("select t::text from robot t order by id");
      const orgs = await client.query("select t::text from org t order by id");
      const logs = await client.query(
        "select tableoid::regclass::text, count(*)::int, md5(string_agg(line, ',' order by line)) from log group by 1 order by 1",
      );
      const next = await client.query("insert into robot (id, org_id) values ('next', 'o1') returning number::int");
      await client.query("delete from robot where id = 'next'");
      const migration = await client.query("insert into migration (name) values ('two') returning id");
      return [robots.rows, orgs.rows, logs.rows, next.rows, migration.rows];
    });
    await embedded.stop();
    return { major: embedded.major, rows };
  }

  test("copies all rows and sequences to the new database, and keeps the old one usable", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const result = await upgrade(place.database);
    const kept = `${place.database}.${OLD}.old`;
    assert.deepEqual(result, { from: OLD, to: EMBEDDED_MAJOR, kept, tables: 6, rows: 20_007 });
    assert.deepEqual(
      (await readdir(place.root)).toSorted(),
      ["postgres", `postgres.${OLD}.old`, "postgres.live", "postgres.lock", "postgres.log"].toSorted(),
    );
    const [is, was] = [await contents(place.database), await contents(kept)];
    assert.deepEqual({ is: is.major, was: was.major }, { is: EMBEDDED_MAJOR, was: OLD });
    assert.deepEqual(is.rows, was.rows);
    assert.deepEqual(await upgrade(place.database), { from: EMBEDDED_MAJOR, to: EMBEDDED_MAJOR, kept: undefined, tables: 0, rows: 0 });
  });

  test("stops the upgrade if the schema differs from the migrations, and keeps the old database", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    let calls = 0;
    const uneven = async (connection: Connection): Promise<void> => {
      await migrate(connection);
      calls += 1;
      if (calls === 2) await withClient(connection, (client) => client.query("alter table robot drop column load"));
    };
    await assert.rejects(upgrade(place.database, { migrate: uneven }), /public.robot is not the same table in the new database/);
    assert.equal(await readMajor(place.database), OLD);
    assert.deepEqual(
      (await readdir(place.root)).filter((name) => name.includes("upgrade") || name.includes("old")),
      [],
    );
    assert.deepEqual(await findPostgresOn(place.database), []);
  });

  test("fails the upgrade if the copied rows differ, and keeps the old database", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    let calls = 0;
    const tampering = async (connection: Connection): Promise<void> => {
      await migrate(connection);
      calls += 1;
      if (calls === 1) return;
      await withClient(connection, (client) =>
        client.query(`create function spoil() returns trigger language plpgsql as $$ begin if new.id = 'o2' then new.id := 'o3'; end if; return new; end $$;
          create trigger spoil before insert on org for each row execute function spoil();
          alter table org enable always trigger spoil`),
      );
    };
    await assert.rejects(upgrade(place.database, { migrate: tampering }), /the copy of public.org differs/);
    assert.equal(await readMajor(place.database), OLD);
  });

  test("restarts an upgrade from the beginning after a kill while copying", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const child = spawn(process.execPath, [path.join(import.meta.dirname, "testing", "hold-upgrade.ts"), place.database], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(child.stdout, "data");
    await assert.rejects(upgrade(place.database), { name: "Refusal", message: /already in use by process/ });
    await endServer({ child }, "SIGKILL");
    assert.notDeepEqual(await findPostgresOn(`${place.database}.upgrade`), []);
    assert.equal((await upgrade(place.database)).rows, 20_007);
    assert.deepEqual(await findPostgresOn(`${place.database}.upgrade`), []);
  });

  test("the next start completes an upgrade that was killed between its two renames", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    await rename(place.database, `${place.database}.upgrade`);
    await mkdir(`${place.database}.${OLD}.old`);
    await writeFile(`${place.database}.switch`, JSON.stringify({ upgraded: "postgres.upgrade", kept: `postgres.${OLD}.old` }));
    const { rows } = await contents(place.database);
    assert.equal((rows as unknown[][])[0]?.length, 3);
    assert.ok(!(await readdir(place.root)).includes("postgres.switch"));
  });

  test("does not overwrite the database kept by an earlier upgrade", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    await mkdir(`${place.database}.${OLD}.old`);
    await assert.rejects(upgrade(place.database), {
      name: "Refusal",
      message: /exists: first move away the database that an earlier upgrade kept/,
    });
    assert.equal(await readMajor(place.database), OLD);
  });

  test("refuses to upgrade a directory without a database", async () => {
    await using place = await scratch();
    await assert.rejects(upgrade(place.database), { name: "Refusal", message: /there is no database in/ });
  });
});

/** Returns a system root with only the old major version, so that the test does not depend on other installations. */
async function onlyOld(root: string): Promise<string> {
  const system = path.join(root, "system");
  await mkdir(system);
  await symlink(path.join(sources.systemRoot, String(OLD)), path.join(system, String(OLD)));
  return system;
}
