import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { appendFile, copyFile, mkdir, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import type { BackupManifest } from "./backup.ts";
import { backup, type Connection, type Embedded, restore } from "./index.ts";
import { withClient } from "../with-client.ts";
import { run } from "./run.ts";
import { copyDatabase, scratch, startOn } from "./testing/scratch.ts";

/** More than ten times the duration of the slowest test while other tests run. */
const TIMEOUT = 300_000;

/** Inserts matching rows into two tables until stopped. `acknowledged` returns the number of committed transactions. */
function startWriting(connection: Connection): { acknowledged: () => number; stop: () => Promise<void> } {
  let acknowledged = 0;
  let going = true;
  const writers = [1, 2].map((writer) =>
    withClient(connection, async (client) => {
      for (let move = 0; going; move += 1) {
        await client.query("begin");
        await client.query("insert into debit select $1::int, $2::int, n, repeat('x', 200) from generate_series(1, 20) n", [writer, move]);
        await client.query("insert into credit select $1::int, $2::int, n, repeat('y', 200) from generate_series(1, 20) n", [writer, move]);
        if (move % 20 === 19) await client.query("update balance set moves = moves + 20");
        await client.query("commit");
        if (move % 50 === 49) await client.query("checkpoint");
        acknowledged += 1;
      }
    }),
  );
  return {
    acknowledged: () => acknowledged,
    stop: async () => {
      going = false;
      await Promise.all(writers);
    },
  };
}

/** Replaces a file of a backup and its checksum, as an attacker with write access could. */
async function tamper(copy: string, name: string, content: string): Promise<void> {
  const file = path.join(copy, "manifest.json");
  const manifest = JSON.parse(await readFile(file, "utf8")) as BackupManifest;
  const sha256 = createHash("sha256").update(content).digest("hex");
  const files = manifest.files.filter((one) => one.path !== name);
  await writeFile(path.join(copy, "database", name), content);
  await writeFile(file, JSON.stringify({ ...manifest, files: [...files, { path: name, bytes: Buffer.byteLength(content), sha256 }] }));
}

describe("backup and restore", { timeout: 5 * TIMEOUT }, () => {
  let place: Awaited<ReturnType<typeof scratch>>;
  let embedded: Embedded;
  let good: string;

  before(async () => {
    place = await scratch();
    embedded = await startOn(place.database);
    await withClient(embedded.connection, async (client) => {
      for (const table of ["debit", "credit"])
        await client.query(`create table ${table} (writer int, move int, n int, filler text, primary key (writer, move, n))`);
      await client.query("create table balance (moves int)");
      await client.query("insert into balance values (0)");
      await client.query("insert into debit select 0, m, 1, repeat('x', 500) from generate_series(1, 8000) m");
      await client.query("insert into credit select 0, m, 1, repeat('y', 500) from generate_series(1, 8000) m");
    });
    good = path.join(place.root, "good");
    await backup({ connection: embedded.connection, dataDirectory: place.database, to: good });
  });
  after(async () => {
    await embedded.stop();
    await place[Symbol.asyncDispose]();
  });

  test("a finished backup leaves no replication slot or backup_label at its source", { timeout: TIMEOUT }, async () => {
    const { rows } = await withClient(embedded.connection, (client) => client.query("select slot_name from pg_replication_slots"));
    assert.deepEqual(rows, []);
    assert.ok(!(await readdir(place.database)).includes("backup_label"));
  });

  test("refuses to restore a damaged, incomplete or foreign backup, and leaves the target empty", { timeout: TIMEOUT }, async () => {
    await using other = await scratch();
    const copy = path.join(other.root, "copy");
    await copyDatabase(good, copy);
    const variants: [RegExp, string, (file: string) => Promise<unknown>][] = [
      [/damaged: PG_VERSION/, "database/PG_VERSION", (file) => appendFile(file, "0")],
      [/damaged: global\/pg_control/, "database/global/pg_control", flipByte],
      [/lacks backup_label/, "database/backup_label", (file) => rm(file)],
      [/has no readable manifest.json/, "manifest.json", (file) => rm(file)],
      [/is not JSON/, "manifest.json", (file) => writeFile(file, "{")],
      [/cannot read/, "manifest.json", (file) => writeFile(file, "null")],
      [/outside of itself/, "manifest.json", (file) => writeFile(file, JSON.stringify({ format: 1, directories: ["../up"], files: [] }))],
    ];
    for (const [message, name, spoil] of variants) {
      await spoil(path.join(copy, name));
      await assert.rejects(restore({ from: copy, directory: other.database }), { name: "Refusal", message });
      assert.deepEqual((await readdir(other.root)).toSorted(), ["copy", "postgres.lock"]);
      await copyFile(path.join(good, name), path.join(copy, name));
    }
    await restore({ from: copy, directory: other.database });
  });

  test("a tampered backup cannot make PostgreSQL run a command or admit other users", { timeout: TIMEOUT }, async () => {
    await using other = await scratch();
    const copy = path.join(other.root, "copy");
    await copyDatabase(good, copy);
    const marker = path.join(other.root, "executed");
    const command = `touch ${marker}`;
    const settings = `archive_mode = 'on'\narchive_command = '${command}'\nssl_passphrase_command = '${command}'\nrestore_command = '${command}'\n`;
    await tamper(copy, "postgresql.auto.conf", settings);
    await tamper(copy, "postgresql.conf", `${settings}include = 'more.conf'\n`);
    await tamper(copy, "pg_hba.conf", "host all all 0.0.0.0/0 trust\n");
    await restore({ from: copy, directory: other.database });
    const restored = await startOn(other.database);
    await withClient(restored.connection, async (client) => {
      await client.query("create table after (n int); select pg_switch_wal(); checkpoint");
      const { rows } = await client.query<{ name: string; setting: string }>(
        "select name, setting from pg_settings where name in ('archive_mode', 'archive_command', 'restore_command', 'ssl_passphrase_command') and setting not in ('', 'off', '(disabled)')",
      );
      assert.deepEqual(rows, []);
    });
    await restored.stop();
    assert.ok(!(await readdir(other.root)).includes("executed"));
    for (const name of ["postgresql.auto.conf", "postgresql.conf", "pg_hba.conf"])
      assert.doesNotMatch(await readFile(path.join(other.database, name), "utf8"), /touch|0\.0\.0\.0/, name);
    await tamper(copy, "recovery.signal", "");
    await using third = await scratch();
    await assert.rejects(restore({ from: copy, directory: third.database }), { name: "Refusal", message: /contains recovery\.signal/ });
  });

  test("ignores archive commands in the settings file of the database directory", { timeout: TIMEOUT }, async () => {
    await using other = await scratch();
    await restore({ from: good, directory: other.database });
    await appendFile(path.join(other.database, "postgresql.auto.conf"), "archive_mode = 'on'\narchive_command = '/bin/false'\n");
    const started = await startOn(other.database);
    const { rows } = await withClient(started.connection, (client) => client.query("show archive_command"));
    assert.deepEqual(rows, [{ archive_command: "(disabled)" }]);
    await started.stop();
  });

  test("refuses to restore over a database, or to back up into a non-empty directory", { timeout: TIMEOUT }, async () => {
    await assert.rejects(backup({ connection: embedded.connection, dataDirectory: place.database, to: good }), {
      name: "Refusal",
      message: /is not empty/,
    });
    await using other = await scratch();
    await mkdir(other.database);
    await writeFile(path.join(other.database, "PG_VERSION"), "18\n");
    await assert.rejects(restore({ from: good, directory: other.database }), { name: "Refusal", message: /already contains a database/ });
    await assert.rejects(restore({ from: good, directory: place.database }), { name: "Refusal", message: /already in use by process/ });
    assert.equal(await readFile(path.join(other.database, "PG_VERSION"), "utf8"), "18\n");
  });

  test("a failed backup leaves nothing at its target", { timeout: TIMEOUT }, async () => {
    await using other = await scratch();
    const to = path.join(other.root, "failed");
    await assert.rejects(
      backup({ connection: { ...embedded.connection, database: "absent" }, dataDirectory: place.database, to }),
      /"absent" does not exist/,
    );
    assert.deepEqual(await readdir(other.root), []);
  });

  test("other users cannot read a backup", { timeout: TIMEOUT }, async () => {
    assert.equal((await stat(good)).mode & 0o077, 0);
    const { output } = await run("find", [good, "-perm", "/077"]);
    assert.equal(output, "");
  });

  test("a backup during writes restores to a consistent database with all earlier commits", { timeout: TIMEOUT }, async () => {
    const writing = startWriting(embedded.connection);
    await until("something is committed", () => writing.acknowledged() > 5);
    const to = path.join(place.root, "backups", "first");
    const committed = writing.acknowledged();
    const manifest = await backup({ connection: embedded.connection, dataDirectory: place.database, to });
    const during = writing.acknowledged() - committed;
    await writing.stop();
    assert.ok(during > 0, "the writers must have written during the backup");
    assert.equal(manifest.postgresql, embedded.major);

    await using other = await scratch();
    await restore({ from: to, directory: other.database });
    const restored = await startOn(other.database);
    await withClient(restored.connection, async (client) => {
      const moves = await client.query<{ debit: number; credit: number; unequal: number }>(
        `select (select count(distinct (writer, move)) from debit where writer > 0)::int as debit, (select count(distinct (writer, move)) from credit where writer > 0)::int as credit,
           (select count(*) from debit full join credit using (writer, move, n) where debit.filler is null or credit.filler is null)::int as unequal`,
      );
      const [row] = moves.rows;
      assert.ok(row && row.debit >= committed);
      assert.deepEqual({ credit: row.credit, unequal: row.unequal }, { credit: row.debit, unequal: 0 });
      await client.query("create extension amcheck");
      await client.query(
        "select bt_index_check(c.oid::regclass, true) from pg_class c join pg_am a on a.oid = c.relam where a.amname = 'btree' and c.relpersistence = 'p'",
      );
      await client.query("insert into balance values (1)");
    });
    await restored.stop();
  });
});

async function flipByte(file: string): Promise<void> {
  const handle = await open(file, "r+");
  const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, 100);
  buffer[0] = (buffer[0] ?? 0) ^ 1;
  await handle.write(buffer, 0, 1, 100);
  await handle.close();
}
