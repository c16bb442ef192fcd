import assert from "node:assert/strict";
import { test } from "node:test";
import { dropAuditEntries } from "../../kernel/audit-retention.ts";
import { BATCH_ROWS_MAX } from "../../kernel/retention.ts";
import { row, sql, text } from "../../kernel/sql.ts";
import { startFeaturePlane } from "../testing/feature-plane.ts";

const TIMEOUT = { timeout: 120_000 };

test("deletes entries past the retention time: of every org, of deleted orgs and of the service", TIMEOUT, async () => {
  await using it = await startFeaturePlane([]);
  const { plane, clock } = it;
  const orgs = ["", (await it.org()).org_id, "org_gone"];
  const insert = async (org_id: string, count: number): Promise<void> => {
    const ids = Array.from({ length: count }, () => plane.id("aud"));
    await plane.db.run(sql`
      insert into audit_entry (org_id, id, at, actor, action, method, path, ip, request_id)
      select ${org_id}, e.id, ${clock.now()}, '{"type":"admin"}', 'createSite', 'POST', '/api/sites', '192.0.2.1', 'r'
      from jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb) e (id)`);
  };
  for (const org_id of orgs) await insert(org_id, 3);
  await insert("org_gone", BATCH_ROWS_MAX + 1);
  await clock.advance({ hours: 48 });
  const before = clock.now();
  await clock.advance({ hours: 1 });
  for (const org_id of orgs) await insert(org_id, 1);
  await dropAuditEntries(plane, before);
  const left = await plane.db.many(sql(row({ org_id: text }))`select org_id from audit_entry order by org_id`);
  assert.deepEqual(
    left.map(({ org_id }) => org_id),
    orgs.toSorted(),
  );
});
