import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { armFailpoints, type Reached } from "@roamfleet/clock/failpoint";
import { sql } from "../../kernel/sql.ts";
import { createTestDatabase } from "./testing/index.ts";
import { nameFromStack, TransactionPoints } from "./transaction-points.ts";

test("names a failpoint after the nearest feature on the stack, or else after the kernel", () => {
  const at = (where: string): string => `    at ${where}`;
  const pool = at("Transaction.send (file:///opt/packages/server/src/engines/db/pool.ts:1:1)");
  const kernel = at("async Idempotency.once (file:///opt/packages/server/src/kernel/idempotency.ts:67:17)");
  const feature = at("async insertSite (file:///opt/packages/server/src/features/sites/store.ts:5:3)");
  assert.equal(nameFromStack(["Error", pool, feature, kernel]), "features/sites/store.insertSite");
  assert.equal(nameFromStack(["Error", pool, kernel, feature]), "features/sites/store.insertSite");
  assert.equal(nameFromStack(["Error", pool, kernel]), "kernel/idempotency.once");
  assert.equal(nameFromStack([at("file:///opt/packages/server/src/features/sites/routes.ts:5:3")]), "features/sites/routes");
  assert.equal(nameFromStack([at("Object.<anonymous> (/opt/packages/server/src/link/lease.ts:5:3)")]), "link/lease");
  assert.equal(nameFromStack(["Error", pool]), "elsewhere");
});

test(
  "a transaction reaches its failpoints in order; a single write reaches two failpoints, a single read none",
  { timeout: 120_000 },
  async () => {
    const directory = mkdtempSync(path.join(tmpdir(), "roamfleet-points-"));
    const log_file = path.join(directory, "points.log");
    await using database = await createTestDatabase();
    const db = await database.connect();
    const reached = (): string[] =>
      readFileSync(log_file, "utf8")
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as Reached).point);
    armFailpoints({ spec: "list", log_file });
    try {
      await db.many(sql`select 1 as one`);
      await db.transaction(async (tx) => {
        await tx.run(sql`create temporary table kept (n int)`);
        await tx.run(sql`insert into kept values (1)`);
      });
      await db.run(sql`create temporary table other (n int)`);
      await assert.rejects(db.transaction(() => Promise.reject(new Error("no"))));
    } finally {
      armFailpoints(undefined);
    }
    assert.deepEqual(reached(), [
      "elsewhere:begin",
      "elsewhere:statement-1",
      "elsewhere:statement-2",
      "elsewhere:before-commit",
      "elsewhere:after-commit",
      "elsewhere:before-write",
      "elsewhere:after-write",
    ]);
    rmSync(directory, { recursive: true, force: true });
  },
);

test("without armed failpoints, no statement is read and no stack trace is created", { timeout: 120_000 }, async () => {
  const before = Object.getOwnPropertyDescriptor(Error, "prepareStackTrace");
  const read: string[] = [];
  Error.prepareStackTrace = (error) => {
    read.push(String(error));
    return String(error);
  };
  try {
    assert.equal(TransactionPoints.ofCaller(), undefined);
    // Fails the test if the statement is read.
    const text = { [Symbol.toPrimitive]: () => assert.fail("the statement was read") } as unknown as string;
    assert.equal(TransactionPoints.lone(text), undefined);
  } finally {
    if (before === undefined) Reflect.deleteProperty(Error, "prepareStackTrace");
    else Object.defineProperty(Error, "prepareStackTrace", before);
  }
  assert.deepEqual(read, []);
});
