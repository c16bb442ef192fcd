import assert from "node:assert/strict";
import { createServer, type Socket, connect as connectTcp } from "node:net";
import { after, before, test } from "node:test";
import { systemClock, trackActivity } from "@roamfleet/clock";
import { until } from "@roamfleet/clock/testing";
import { bigint, bool, bytea, float, int, json, jsonb, list, nullable, row, sql, text, timestamptz, wiredRow } from "../../kernel/sql.ts";
import { ConnectionLost, connect, type DbEngine, isConnectionLost, isUniqueViolation, mapUniqueViolation } from "./index.ts";
import { createTestDatabase, silentLog, type TestDatabase } from "./testing/index.ts";

const TIMEOUT = { timeout: 120_000 };
const counterRow = row({ id: text, count: int });

let database: TestDatabase;
let db: DbEngine;

before(async () => {
  database = await createTestDatabase({ empty: true });
  db = await database.connect();
  await db.run(sql`create table counter (id text primary key, count int not null default 0)`);
});
after(() => database.drop());

const insert = (id: string, count = 0) => sql`insert into counter (id, count) values (${id}, ${count})`;
const find = (id: string) => sql(counterRow)`select ${counterRow} from counter where id = ${id}`;

/**
 * Starts a proxy to the database that closes a client's connection when the client sends the bytes `cut_at`. `pass`: forwards these
 * bytes before it closes the connection.
 */
async function startProxy(cut_at: string, pass: boolean) {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connectTcp(`${database.connection.host}/.s.PGSQL.${database.connection.port}`);
    sockets.add(client).add(upstream);
    for (const socket of [client, upstream]) socket.on("error", () => {});
    let cut = false;
    client.on("data", (bytes) => {
      if (bytes.includes(cut_at)) {
        cut = true;
        if (!pass) client.destroy();
      }
      if (pass || !cut) upstream.write(bytes);
    });
    upstream.on("data", (bytes) => (cut ? client.destroy() : client.write(bytes)));
    client.on("close", () => upstream.destroy());
    upstream.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const engine = await connect({ connection: { ...database.connection, host: "127.0.0.1", port }, clock: systemClock, log: silentLog });
  return {
    engine,
    async [Symbol.asyncDispose]() {
      await engine.close();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("reads database values of every type as they were written", TIMEOUT, async () => {
  const all = row({ t: text, i: int, b: bigint, f: float, o: bool, z: timestamptz, y: bytea, j: jsonb<unknown>(), n: nullable(text) });
  const z = new Date("2030-05-06T07:08:09.123Z");
  const given = {
    t: "é\u{1f600}\\'\"",
    i: -5,
    b: 9_007_199_254_740_991,
    f: 0.1,
    o: true,
    z,
    y: Buffer.from([0, 255]),
    j: { a: ["\u2028", null] },
    n: null,
  };
  const found = await db.one(
    sql(
      all,
    )`select ${given.t}::text as t, ${given.i}::int as i, ${given.b}::bigint as b, ${given.f}::float8 as f, ${given.o}::bool as o, ${z}::timestamptz as z,
      ${given.y}::bytea as y, ${json(given.j)}::jsonb as j, ${null}::text as n`,
  );
  assert.deepEqual({ ...found }, given);
  const times = row({ z: timestamptz });
  const wired = wiredRow({ z: timestamptz });
  for (const at of [
    "0044-03-15T00:00:00.000Z",
    "1970-01-01T00:00:00.000Z",
    "2038-01-19T03:14:08.900Z",
    "2038-01-19T03:14:08.999Z",
    "9999-12-31T23:59:59.999Z",
  ]) {
    assert.equal((await db.one(sql(times)`select ${at}::timestamptz as z`)).z.toISOString(), at);
    assert.equal((await db.one(sql(wired)`select ${at}::timestamptz as z`)).z, at);
  }
  assert.equal((await db.one(sql(wired)`select '2030-01-01 01:02:03.004999+01'::timestamptz as z`)).z, "2030-01-01T00:02:03.004Z");
  const items = row({ item: text });
  assert.deepEqual(
    (await db.many(sql(items)`select unnest(${list(['a"b', "c,d", "", "NULL"])}::text[]) as item`)).map(({ item }) => item),
    ['a"b', "c,d", "", "NULL"],
  );
});

test("database sessions use UTC and have timeouts, regardless of the database's settings", TIMEOUT, async () => {
  await using other = await createTestDatabase({ empty: true });
  const setup = await other.connect();
  await setup.run(sql`do $$ begin
    execute format('alter database %I set timezone to %L', current_database(), 'Asia/Kolkata');
    execute format('alter database %I set statement_timeout to 0', current_database()); end $$`);
  const setting = row({ zone: text, statement_timeout: text });
  const found = await (
    await other.connect()
  ).one(sql(setting)`select current_setting('timezone') as zone, current_setting('statement_timeout') as statement_timeout`);
  assert.deepEqual({ ...found }, { zone: "UTC", statement_timeout: "30s" });
});

test("refuses a bigint beyond the range of JavaScript numbers", TIMEOUT, async () => {
  await assert.rejects(db.one(sql(row({ b: bigint }))`select 9007199254740993::bigint as b`), /does not fit/);
});

test("one() requires exactly one row, and maybe() at most one", TIMEOUT, async () => {
  await db.run(sql`insert into counter (id) values ('m1'), ('m2')`);
  const both = sql(counterRow)`select ${counterRow} from counter where id in ('m1', 'm2')`;
  assert.equal((await db.many(both)).length, 2);
  assert.equal(await db.maybe(find("missing")), undefined);
  await assert.rejects(db.one(find("missing")), /expected exactly one row, got 0/);
  await assert.rejects(db.one(both), /got 2/);
  await assert.rejects(db.maybe(both), /got 2/);
  assert.equal(await db.run(sql`update counter set count = 1 where id in ('m1', 'm2')`), 2);
});

test("rejects a result row that differs from its declared columns", TIMEOUT, async () => {
  const declared = row({ id: text, count: int });
  await db.run(insert("declared"));
  await assert.rejects(db.many(sql(declared)`select id from counter`), /count is declared but not in the result/);
  await assert.rejects(db.many(sql(declared)`select id, count, 1 as more from counter`), /more is not declared/);
  await assert.rejects(db.many(sql(declared)`select id, count::bigint from counter`), /count is declared int but has type 20/);
  await assert.rejects(db.many(sql(declared)`select id, null::int as count from counter`), /count is null but not declared nullable/);
  await assert.rejects(db.many(sql(declared)`select id, id, count from counter`), /id occurs twice/);
  assert.ok((await db.many(sql(declared)`select count, id from counter`)).length > 0);
});

test("commits a transaction when its callback resolves, then runs its effects", TIMEOUT, async () => {
  const seen: string[] = [];
  const answer = await db.transaction(async (tx) => {
    await tx.run(insert("committed"));
    tx.afterCommit(() => seen.push("effect"));
    await tx.transaction(async (inner) => {
      inner.afterCommit(() => seen.push("inner effect"));
      await inner.run(sql`update counter set count = 7 where id = 'committed'`);
    });
    seen.push("work");
    return "answer";
  });
  assert.equal(answer, "answer");
  assert.deepEqual(seen, ["work", "effect", "inner effect"]);
  assert.equal((await db.one(find("committed"))).count, 7);
  db.afterCommit(() => seen.push("at once"));
  assert.equal(seen.at(-1), "at once");
});

test("runs atCommit statements at the end of the transaction, or immediately outside of one", TIMEOUT, async () => {
  await db.transaction(async (tx) => {
    await tx.atCommit(insert("last", 2));
    assert.equal(await tx.maybe(find("last")), undefined);
    await tx.run(insert("before the last"));
  });
  assert.equal((await db.one(find("last"))).count, 2);
  // A transaction whose only statement is an atCommit statement.
  await db.transaction((tx) => tx.atCommit(insert("only")));
  assert.equal((await db.one(find("only"))).count, 0);
  const refused = db.transaction(async (tx) => {
    tx.afterCommit(() => assert.fail("an effect of a transaction whose atCommit failed"));
    await tx.run(insert("with the refused"));
    await tx.atCommit(insert("last"));
    await tx.atCommit(insert("after the refused"));
  });
  await assert.rejects(refused, (error) => isUniqueViolation(error, "counter_pkey"));
  for (const id of ["with the refused", "after the refused"]) assert.equal(await db.maybe(find(id)), undefined);
  await db.atCommit(insert("at once"));
  assert.equal((await db.one(find("at once"))).count, 0);
});

test("rolls back a transaction whose callback throws, and runs none of its effects", TIMEOUT, async () => {
  const refusal = new Error("no");
  const work = db.transaction(async (tx) => {
    tx.afterCommit(() => assert.fail("an effect of a transaction that was rolled back"));
    await tx.run(insert("rolled back"));
    throw refusal;
  });
  await assert.rejects(work, (error) => error === refusal);
  assert.equal(await db.maybe(find("rolled back")), undefined);
});

test("a failed statement rolls back the transaction even if its error is caught", TIMEOUT, async () => {
  const statement = db.transaction(async (tx) => {
    await tx.run(insert("swallowed"));
    await tx.run(insert("swallowed")).catch(() => {});
  });
  await assert.rejects(statement, (error) => isUniqueViolation(error, "counter_pkey") && !isUniqueViolation(error, "other"));
  const inner = db.transaction(async (tx) => {
    await tx.run(insert("swallowed"));
    await tx.transaction(() => Promise.reject(new Error("inner"))).catch(() => {});
  });
  await assert.rejects(inner, /inner/);
  const replaced = db.transaction((tx) =>
    tx.transaction(async () => {
      await tx.run(insert("swallowed"));
      await mapUniqueViolation(tx.run(insert("swallowed")), () => new Error("taken"));
    }),
  );
  await assert.rejects(replaced, /taken/);
  assert.equal(await db.maybe(find("swallowed")), undefined);
});

test("refuses queries on a transaction's handle after its end", TIMEOUT, async () => {
  let escaped: Parameters<Parameters<DbEngine["transaction"]>[0]>[0] | undefined;
  await db.transaction(async (tx) => {
    escaped = tx;
    await tx.run(insert("before the end"));
  });
  await assert.rejects(escaped?.run(insert("after the end")) ?? Promise.resolve(), /has ended/);
});

test("retries a transaction that PostgreSQL aborts because of a deadlock", TIMEOUT, async () => {
  await db.run(sql`insert into counter (id) values ('d1'), ('d2')`);
  let attempts = 0;
  const both = Promise.withResolvers<void>();
  let arrived = 0;
  const lock = (first: string, second: string) =>
    db.transaction(async (tx) => {
      attempts += 1;
      await tx.run(sql`update counter set count = count + 1 where id = ${first}`);
      arrived += 1;
      if (arrived === 2) both.resolve();
      await both.promise;
      await tx.run(sql`update counter set count = count + 1 where id = ${second}`);
    });
  await Promise.all([lock("d1", "d2"), lock("d2", "d1")]);
  // One of the two transactions was aborted at least once, and possibly again if it retried before the other one continued.
  assert.ok(attempts >= 3);
  assert.deepEqual([(await db.one(find("d1"))).count, (await db.one(find("d2"))).count], [2, 2]);
});

test("a transaction that conflicts every time fails after six attempts", TIMEOUT, async () => {
  let attempts = 0;
  const conflict = db.transaction(async (tx) => {
    attempts += 1;
    await tx.run(sql`do $$ begin raise exception 'again' using errcode = '40001'; end $$`);
  });
  await assert.rejects(conflict, /again/);
  assert.equal(attempts, 6);
});

test("reports a terminated backend as a lost connection, and the pool continues", TIMEOUT, async () => {
  const kill_others = sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
  const sleeping = assert.rejects(db.run(sql`select pg_sleep(30)`), isConnectionLost);
  const idle_in_transaction = db.transaction(async (tx) => {
    await tx.run(insert("terminated"));
    await until(
      "the statement to sleep",
      async () =>
        (
          await db.one(
            sql(
              row({ n: int }),
            )`select count(*)::int as n from pg_stat_activity where datname = current_database() and query like '%pg_sleep(30)%' and pid <> pg_backend_pid()`,
          )
        ).n > 0,
    );
    await db.run(kill_others);
    await tx.run(sql`select 1`);
  });
  await Promise.all([sleeping, assert.rejects(idle_in_transaction, isConnectionLost)]);
  await until("the database to answer", () => db.ready(5_000));
  assert.equal(await db.maybe(find("terminated")), undefined);
});

test("reports a lost connection when the connection breaks during a commit", TIMEOUT, async () => {
  for (const pass of [true, false]) {
    await using proxy = await startProxy("commit", pass);
    const id = `commit ${pass}`;
    const write = proxy.engine.transaction(async (tx) => {
      tx.afterCommit(() => assert.fail("an effect of an unconfirmed commit"));
      await tx.run(insert(id));
    });
    await assert.rejects(write, (error) => error instanceof ConnectionLost);
    // If the proxy did not forward COMMIT, the transaction cannot have been committed. Otherwise it may have been, so it must not be
    // reported as failed.
    if (!pass) assert.equal(await db.maybe(find(id)), undefined);
    assert.equal(await proxy.engine.ready(5_000), true);
  }
});

test("reports an unreachable database as a lost connection", TIMEOUT, async () => {
  for (const connection of [{ ...database.connection, host: "/nonexistent" }, "postgres://127.0.0.1:1/x"]) {
    await assert.rejects(connect({ connection, clock: systemClock, log: silentLog }), isConnectionLost);
  }
  await assert.rejects(
    connect({ connection: { ...database.connection, database: "nosuch" }, clock: systemClock, log: silentLog }),
    (error) => !isConnectionLost(error),
  );
});

test("closing the pool waits for running queries and refuses new ones", TIMEOUT, async () => {
  const engine = await database.connect({ pool_size: 1 });
  const under_way = [engine.run(sql`select pg_sleep(0.2)`), engine.run(sql`select 1`)];
  const closed = engine.close();
  await assert.rejects(engine.run(sql`select 1`), isConnectionLost);
  assert.equal(await engine.ready(1_000), false);
  assert.deepEqual(await Promise.all(under_way), [1, 1]);
  await closed;
});

test("counts running queries and transactions as activity", TIMEOUT, async () => {
  const activity = trackActivity();
  const engine = await database.connect({ activity });
  const query = engine.run(sql`select 1`);
  assert.equal(activity.pending, 1);
  await query;
  assert.equal(activity.pending, 0);
  await engine.transaction(async () => assert.equal(activity.pending, 1));
  await assert.rejects(engine.run(sql`select 1/0`));
  assert.equal(activity.pending, 0);
});

test("a query of one org does not wait for all queued queries of busy orgs", TIMEOUT, async () => {
  const engine = await database.connect();
  const QUERIES = 60;
  const flood = (org_id: string) => {
    const ended = { count: 0 };
    const all = Array.from({ length: QUERIES }, async () => {
      await engine.forOrg(org_id).run(sql`select pg_sleep(0.05)`);
      ended.count += 1;
    });
    return { ended, all };
  };
  const first = flood("org_a");
  await engine.forOrg("org_b").run(sql`select 1`);
  assert.ok(first.ended.count <= 10, `${first.ended.count} queries of the busy org were served first`);
  const second = flood("org_c");
  await until("both orgs to use all connections", () => engine.load.in_use === 7 && engine.load.waiting > QUERIES);
  const before = first.ended.count + second.ended.count;
  await engine.forOrg("org_b").run(sql`select 1`);
  const served = first.ended.count + second.ended.count - before;
  assert.ok(served <= 10, `${served} queries of the busy orgs were served first`);
  await Promise.all([...first.all, ...second.all]);
});
