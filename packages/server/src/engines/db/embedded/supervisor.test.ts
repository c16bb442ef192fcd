import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { pbkdf2 } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { until } from "@roamfleet/clock/testing";
import { withClient } from "../with-client.ts";
import { findPostgresOn } from "./postmaster.ts";
import { copyDatabase, endServer, holdServer, quietLog, scratch, startOn } from "./testing/scratch.ts";

const TIMEOUT = 120_000;

describe("supervisor of the embedded PostgreSQL", { timeout: 5 * TIMEOUT }, () => {
  let template: Awaited<ReturnType<typeof scratch>>;

  before(async () => {
    template = await scratch();
    const embedded = await startOn(template.database);
    await withClient(embedded.connection, (client) => client.query("create table kept (n int)"));
    await embedded.stop();
  });
  after(() => template[Symbol.asyncDispose]());

  async function fresh(): Promise<Awaited<ReturnType<typeof scratch>>> {
    const place = await scratch();
    await copyDatabase(template.database, place.database);
    return place;
  }

  test("creates a UTF8 database with C collation, fsync and only a private socket", { timeout: TIMEOUT }, async () => {
    await using place = await scratch();
    const embedded = await startOn(place.database, { parameters: {} });
    const { rows } = await withClient(embedded.connection, (client) =>
      client.query<Record<string, string>>(
        "select pg_encoding_to_char(encoding) as encoding, datcollate, current_setting('listen_addresses') as listen, current_setting('fsync') as fsync, current_setting('data_checksums') as checksums from pg_database where datname = 'roamfleet'",
      ),
    );
    assert.deepEqual(rows, [{ encoding: "UTF8", datcollate: "C", listen: "", fsync: "on", checksums: "on" }]);
    assert.equal((await stat(embedded.connection.host)).mode & 0o777, 0o700);
    assert.equal((await stat(place.database)).mode & 0o777, 0o700);
    await embedded.stop();
  });

  test("leaves no process and no socket after a stop", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const embedded = await startOn(place.database);
    assert.notDeepEqual(await findPostgresOn(place.database), []);
    await Promise.all([embedded.stop(), embedded.stop()]);
    assert.deepEqual(await findPostgresOn(place.database), []);
    assert.deepEqual((await readdir(place.root)).toSorted(), ["postgres", "postgres.live", "postgres.lock", "postgres.log"]);
  });

  test("a connected client neither delays a stop nor crashes the process", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const embedded = await startOn(place.database);
    const error = await withClient(embedded.connection, async (client) => {
      const sleeping = client.query("select pg_sleep(60)").catch((reason: unknown) => reason);
      await embedded.stop();
      return sleeping;
    });
    assert.ok(error instanceof Error);
  });

  test("a new server adopts the running PostgreSQL of a killed server with its data", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const first = await holdServer(place.database);
    await withClient(first.connection, (client) => client.query("insert into kept values (42)"));
    await endServer(first, "SIGKILL");
    assert.notDeepEqual(await findPostgresOn(place.database), []);

    const second = await startOn(place.database);
    assert.deepEqual(
      { adopted: second.adopted, pid: second.pid, connection: second.connection },
      { adopted: true, pid: first.pid, connection: first.connection },
    );
    const { rows } = await withClient(second.connection, (client) => client.query("select n from kept"));
    assert.deepEqual(rows, [{ n: 42 }]);
    await second.stop();
    assert.deepEqual(await findPostgresOn(place.database), []);
  });

  test("refuses a second server on the same directory, and names the process of the first", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const first = await holdServer(place.database);
    await assert.rejects(startOn(place.database), {
      name: "Refusal",
      message: new RegExp(`already in use by process ${first.child.pid}: stop that server first`),
    });
    const { rows } = await withClient(first.connection, (client) => client.query("select 1 as one"));
    assert.deepEqual(rows, [{ one: 1 }]);
    await endServer(first, "SIGTERM");
    await (await startOn(place.database)).stop();
  });

  test("refuses one of two concurrent starts on a directory in the same process", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const results = await Promise.allSettled([startOn(place.database), startOn(place.database)]);
    assert.deepEqual(results.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
    for (const result of results) if (result.status === "fulfilled") await result.value.stop();
  });

  test("restarts a killed PostgreSQL on the same connection with all committed rows", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const errors: unknown[] = [];
    const embedded = await startOn(place.database, { log: { ...quietLog, error: (fields) => errors.push(fields) } });
    const first = embedded.pid;
    await withClient(embedded.connection, (client) => client.query("insert into kept values (7)"));
    process.kill(first, "SIGKILL");
    await until("PostgreSQL runs again", () => embedded.pid !== first);
    assert.deepEqual(errors, [{ pid: first, code: null, signal: "SIGKILL" }]);
    const { rows } = await withClient(embedded.connection, (client) => client.query("select n from kept"));
    assert.deepEqual(rows, [{ n: 7 }]);
    await embedded.stop();
  });

  test("restarts an adopted PostgreSQL when it is killed", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const first = await holdServer(place.database);
    await endServer(first, "SIGKILL");
    const second = await startOn(place.database);
    process.kill(first.pid, "SIGKILL");
    await until("PostgreSQL runs again", () => second.pid !== first.pid);
    await withClient(second.connection, (client) => client.query("select 1"));
    await second.stop();
  });

  test("leaves no process when it is stopped during a restart of PostgreSQL", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const ended = Promise.withResolvers<void>();
    const embedded = await startOn(place.database, { log: { ...quietLog, error: () => ended.resolve() } });
    process.kill(embedded.pid, "SIGKILL");
    await ended.promise;
    await embedded.stop();
    assert.deepEqual(await findPostgresOn(place.database), []);
  });

  test("waits for a surviving child process of a killed PostgreSQL before it starts", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const first = await holdServer(place.database);
    await withClient(first.connection, async (client) => {
      const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
      const backend = rows[0]?.pid ?? 0;
      // A stopped child cannot notice that its postmaster is gone, so it keeps the database busy longer than a child that is ending.
      process.kill(backend, "SIGSTOP");
      await endServer(first, "SIGKILL");
      process.kill(first.pid, "SIGKILL");
      const waiting = Promise.withResolvers<void>();
      const log = { ...quietLog, info: (_: object, message: string) => message.includes("still use the database") && waiting.resolve() };
      const second = startOn(place.database, { log });
      await waiting.promise;
      // Waits until the postmaster's other children have ended.
      await until("the stopped child to be all that is left", async () => {
        const left = await findPostgresOn(place.database);
        assert.ok(left.some(({ pid }) => pid === backend));
        return left.length === 1;
      });
      process.kill(backend, "SIGKILL");
      const embedded = await second;
      assert.equal(embedded.adopted, false);
      await embedded.stop();
    });
  });

  test("starts despite a pid file that names an unrelated process, which keeps running", { timeout: TIMEOUT }, async (t) => {
    await using place = await fresh();
    const embedded = await startOn(place.database);
    const file = path.join(place.database, "postmaster.pid");
    const text = await readFile(file, "utf8");
    await embedded.stop();
    const stranger = spawn("sleep", ["infinity"]);
    t.after(() => stranger.kill());
    await writeFile(file, text.replace(/^\d+/, String(stranger.pid)), { mode: 0o600 });
    const again = await startOn(place.database);
    assert.equal(again.adopted, false);
    await again.stop();
    assert.equal(stranger.exitCode ?? stranger.signalCode, null);
  });

  test("neither adopts nor stops the PostgreSQL of another directory named in the pid file", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    await using elsewhere = await fresh();
    const other = await startOn(elsewhere.database);
    const file = await readFile(path.join(elsewhere.database, "postmaster.pid"), "utf8");
    await writeFile(path.join(place.database, "postmaster.pid"), file, { mode: 0o600 });
    const embedded = await startOn(place.database);
    assert.equal(embedded.adopted, false);
    await embedded.stop();
    await withClient(other.connection, (client) => client.query("select 1"));
    await other.stop();
  });

  test("reports the error of a PostgreSQL that cannot start, and leaves no process", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    await assert.rejects(
      startOn(place.database, { parameters: { shared_buffers: "nonsense" } }),
      /did not start on .*invalid value for parameter "shared_buffers"/s,
    );
    assert.deepEqual(await findPostgresOn(place.database), []);
    await (await startOn(place.database)).stop();
  });

  test("does not hang if PostgreSQL exits while the server's file operations are queued", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    await using busy = busyThreads();
    await assert.rejects(startOn(place.database, { parameters: { shared_buffers: "nonsense" } }), /invalid value for parameter/);
    assert.ok(busy.rounds > 0);
  });

  test("PostgreSQL's log contains no row contents of failed statements", { timeout: TIMEOUT }, async () => {
    await using place = await fresh();
    const embedded = await startOn(place.database);
    await withClient(embedded.connection, async (client) => {
      await client.query("create table secret (token text primary key)");
      for (let turn = 0; turn < 2; turn += 1) await client.query("insert into secret values ($1)", ["hunter2"]).catch(() => {});
      await client.query("select 'hunter2'::int").catch(() => {});
    });
    await embedded.stop();
    assert.doesNotMatch(await readLog(place.database), /hunter2/);
  });

  /** Keeps every thread of libuv's pool busy, so that each file operation is queued. */
  function busyThreads(): { rounds: number } & AsyncDisposable {
    const state = { rounds: 0, over: false };
    const threads = Array.from({ length: 8 }, async () => {
      while (!state.over) {
        await promisify(pbkdf2)("", "", 20_000, 32, "sha256");
        state.rounds += 1;
      }
    });
    return {
      get rounds() {
        return state.rounds;
      },
      async [Symbol.asyncDispose]() {
        state.over = true;
        await Promise.all(threads);
      },
    };
  }

  const readLog = (directory: string): Promise<string> => readFile(`${directory}.log`, "utf8");
});
