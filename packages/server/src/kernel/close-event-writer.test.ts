import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionLost, isConnectionLost, isDiskFull, isOutage, isTimeout, isUniqueViolation } from "../engines/db/index.ts";
import { CloseEventWriter, type Orphan } from "./close-event-writer.ts";
import { createLog } from "./log.ts";

const PAGES = 3;
const PAGE = 500;
/** Maximum failures per sweep, and maximum ids in the log. */
const [FAILURES_MAX, LOGGED_MAX] = [50, 100];

/** Creates sessions that a lost server left open. The close events of ids that `refused` accepts cannot be written. */
function startBook(count: number, refused: (id: string) => boolean) {
  const logged: { id: string; of: string }[] = [];
  const log = createLog({
    level: "error",
    fold: false,
    stream: { write: (line) => void logged.push(JSON.parse(line) as { id: string; of: string }) },
  });
  const close_events = new CloseEventWriter(
    { log, db_errors: { isConnectionLost, isDiskFull, isTimeout, isOutage, isUniqueViolation } },
    "stream",
  );
  const orphans: Orphan[] = Array.from({ length: count }, (_, n) => ({ org_id: `org_${n % 2}`, id: `req_${String(n).padStart(5, "0")}` }));
  const open = new Map(orphans.map((orphan) => [`${orphan.org_id} ${orphan.id}`, orphan]));
  const book = {
    logged,
    close_events,
    open,
    refused,
    is_down: false,
    asked: 0,
    async write({ org_id, id }: Orphan): Promise<void> {
      book.asked += 1;
      if (book.is_down) throw new ConnectionLost("planned: the database is down");
      if (book.refused(id)) throw new Error("planned: refused");
      open.delete(`${org_id} ${id}`);
    },
    sweep: (): Promise<void> =>
      close_events.sweep(
        async ({ after, limit }) => {
          const behind = [...open].filter(([key]) => key > `${after.org_id} ${after.id}`).toSorted(([a], [b]) => (a < b ? -1 : 1));
          return behind.slice(0, limit).map(([, orphan]) => orphan);
        },
        (orphan) => book.write(orphan),
      ),
  };
  return book;
}

test("writes the close events of all sessions that a lost server left open, except those that fail", async () => {
  const book = startBook(PAGES * PAGE, (id) => id.endsWith("00"));
  await book.sweep();
  assert.equal(book.open.size, (PAGES * PAGE) / 100);
  assert.equal(book.asked, PAGES * PAGE);
  await book.sweep();
  assert.equal(book.logged.length, book.open.size);
  book.refused = () => false;
  await book.sweep();
  assert.equal(book.open.size, 0);
});

test("a sweep with only failures stops early, and the next sweep continues after the failed items", async () => {
  const book = startBook(PAGES * PAGE, () => true);
  for (let sweep = 1; sweep <= 4; sweep += 1) {
    await book.sweep();
    assert.equal(book.asked, sweep * FAILURES_MAX);
  }
  assert.equal(book.logged.length, LOGGED_MAX);
  assert.equal(new Set(book.logged.map(({ id }) => id)).size, LOGGED_MAX);
  const first = [...book.open.values()].slice(0, 1);
  book.refused = (id) => first.some((one) => one.id === id);
  for (let sweep = 0; sweep < 2; sweep += 1) await book.sweep();
  assert.deepEqual([...book.open.values()], first);
  book.refused = (id) => id === "req_new";
  await book.sweep();
  await book.close_events.write("req_new", () => book.write({ org_id: "org_0", id: "req_new" }));
  assert.equal(book.logged.at(-1)?.id, "req_new");
});

test("writes local close events even if many earlier ones fail", async () => {
  const book = startBook(0, () => true);
  const all = Array.from({ length: 3 * FAILURES_MAX }, (_, n): Orphan => ({ org_id: "org_0", id: `req_${n}` }));
  for (const one of all) await book.close_events.write(one.id, () => book.write(one));
  const last = all.at(-1)?.id;
  let written = 0;
  book.refused = (id) => {
    written += id === last ? 1 : 0;
    return id !== last;
  };
  for (let sweep = 0; sweep < 5; sweep += 1) await book.sweep();
  assert.equal(written, 1);
  assert.equal(book.logged.length, LOGGED_MAX);
});

test("a sweep stops immediately when the database is unreachable, and loses no close event", async () => {
  const book = startBook(3, () => false);
  book.is_down = true;
  const ended = { org_id: "org_0", id: "req_told" };
  let ends = 0;
  await book.close_events.write(ended.id, async () => {
    await book.write(ended);
    ends += 1;
  });
  await assert.rejects(book.sweep(), ConnectionLost);
  assert.deepEqual([book.asked, book.logged.length, ends], [2, 1, 0]);
  book.is_down = false;
  for (let sweep = 0; sweep < 2; sweep += 1) await book.sweep();
  assert.deepEqual([ends, book.open.size], [1, 0]);
});
