import assert from "node:assert/strict";
import { test } from "node:test";
import { toFault } from "../../kernel/http.ts";
import { BEHIND_ALL_IDS } from "../../kernel/page.ts";
import { sql } from "../../kernel/sql.ts";
import { explain } from "../testing/explain.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { type EntryFilter, newestEntries } from "./store.ts";

const TIMEOUT = { timeout: 120_000 };
const ROWS = 50_000;

test("each audit filter reads only the entries that it returns, however many others exist", TIMEOUT, async (t) => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const insert = (org_id: string, count: number, { prefix, actor, word }: { prefix: string; actor: string; word: string }) =>
    plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, token_id, action, method, path, object_id, ip, error, request_id)
      select ${org_id}, ${prefix}::text || lpad(n::text, 10, '0'), ${plane.clock.now()}, jsonb_build_object('type', 'user', 'id', ${actor}::text),
        ${`tok_${word}`}, ${word}, 'POST', '/api/sites', ${`site_${word}`}, '192.0.2.1', case when ${word}::text = 'rare' then 'conflict' end, 'r'
      from generate_series(1, ${count}::int) n`);
  await insert("org_a", 3, { prefix: "aud_0", actor: "usr_rare", word: "rare" });
  await insert("org_a", ROWS, { prefix: "aud_1", actor: "usr_common", word: "common" });
  await plane.db.run(sql`analyze audit_entry`);
  const filters: EntryFilter[] = [
    { actor_id: "usr_rare" },
    { token_id: "tok_rare" },
    { action: "rare" },
    { object_id: "site_rare" },
    { outcome: "refused" },
    { actor_id: "usr_nobody" },
    { token_id: "tok_nothing" },
  ];
  for (const filter of filters) {
    const { rows, ms } = await explain(plane.db, (db) => newestEntries(db, "org_a", filter, BEHIND_ALL_IDS, 200));
    t.diagnostic(`${JSON.stringify(filter)}: ${rows} rows, ${ms} ms`);
    assert.ok(rows <= 200, JSON.stringify(filter));
  }
});

test("returns 503 with a reason when the database cancels a slow statement", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane } = it;
  const failed = await plane.db
    .transaction(async (tx) => {
      await tx.run(sql`set local statement_timeout = '20ms'`);
      await tx.run(sql`select pg_sleep(10)`);
    })
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  const { status, code, message, headers } = toFault(plane, failed);
  assert.deepEqual([status, code, headers], [503, "http_error", { "retry-after": "5" }]);
  assert.match(message, /took too long/);
});
