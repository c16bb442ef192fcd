import assert from "node:assert/strict";
import { after, test } from "node:test";
import { localBus } from "../../engines/bus/index.ts";
import { createTestDatabase, silentLog } from "../../engines/db/testing/index.ts";
import { sql } from "../../kernel/sql.ts";
import { announce, type AnnouncedChange, CHANGES_PER_MESSAGE_MAX, type ChangesMessage, changesSubject } from "./announce.ts";

const LIMIT = { timeout: 120_000 };
const database = await createTestDatabase();
const db = await database.connect();
after(async () => {
  await db.close();
  await database.drop();
});

/** Returns a bus and the messages that it delivered for org_a. */
function listening() {
  const bus = localBus({ log: silentLog });
  const heard: ChangesMessage[] = [];
  bus.subscribe(changesSubject("org_a"), (message) => void heard.push(message as unknown as ChangesMessage));
  return { bus, heard, delivered: () => new Promise((resolve) => setImmediate(resolve)) };
}

const release = (id: string, change = "updated"): AnnouncedChange => ({ kind: "release", id, change });

test("publishes the changes of a transaction after its commit, in one message per org", LIMIT, async () => {
  const plane = listening();
  await db.transaction(async (tx) => {
    announce(tx, plane, "org_a", release("rel_1"));
    announce(tx, plane, "org_b", release("rel_2"));
    await tx.run(sql`select 1`);
    await tx.transaction(async (inner) => announce(inner, plane, "org_a", [release("rel_3"), release("rel_4")]));
    await plane.delivered();
    assert.deepEqual(plane.heard, []);
  });
  await plane.delivered();
  assert.deepEqual(plane.heard, [{ changes: [release("rel_1"), release("rel_3"), release("rel_4")] }]);
});

test("publishes changes immediately outside a transaction, and none after a rollback", LIMIT, async () => {
  const plane = listening();
  await assert.rejects(
    db.transaction(async (tx) => {
      announce(tx, plane, "org_a", release("rel_1"));
      await tx.run(sql`select 1 / 0`);
    }),
  );
  await plane.delivered();
  assert.deepEqual(plane.heard, []);
  announce(db.forOrg("org_a"), plane, "org_a", release("rel_2"));
  announce(db, plane, "org_a", release("rel_3"));
  await plane.delivered();
  assert.deepEqual(plane.heard, [{ changes: [release("rel_2")] }, { changes: [release("rel_3")] }]);
});

test("merges the changes of one object in a transaction into one event", LIMIT, async () => {
  const plane = listening();
  await db.transaction(async (tx) => {
    for (const [id, ...changes] of [
      ["rel_1", "created", "status", "updated"],
      ["rel_2", "updated", "moved", "updated"],
      ["rel_3", "updated", "removed"],
    ] as const)
      for (const change of changes) announce(tx, plane, "org_a", { ...release(id, change), status: change });
    await tx.run(sql`select 1`);
  });
  await plane.delivered();
  assert.deepEqual(plane.heard, [
    {
      changes: [
        { ...release("rel_1", "created"), status: "updated" },
        { ...release("rel_2", "moved"), status: "updated" },
        { ...release("rel_3", "removed"), status: "removed" },
      ],
    },
  ]);
});

test("publishes a `lost` event instead of more changes than a message may contain", LIMIT, async () => {
  const plane = listening();
  const many = Array.from({ length: CHANGES_PER_MESSAGE_MAX }, (_, i) => release(`rel_${i}`));
  await db.transaction(async (tx) => {
    announce(tx, plane, "org_a", many);
    await tx.run(sql`select 1`);
  });
  await db.transaction(async (tx) => {
    announce(tx, plane, "org_a", many);
    announce(tx, plane, "org_a", release("one more"));
    announce(tx, plane, "org_a", release("and another"));
    await tx.run(sql`select 1`);
  });
  await plane.delivered();
  assert.deepEqual(plane.heard, [{ changes: many }, { lost: true }]);
});
