import assert from "node:assert/strict";
import { test } from "node:test";
import { startFeaturePlane } from "../testing/feature-plane.ts";
import { deleteAuthorityChange, insertAuthorityChanges, listAuthorityChanges } from "./store/authority-changes.ts";

test(
  "keeps a change that is recorded again while the first is handled, also on a node whose clock is behind",
  { timeout: 120_000 },
  async () => {
    await using it = await startFeaturePlane([]);
    const { org_id } = await it.org();
    const db = it.plane.db.forOrg(org_id);
    const read = async () => (await listAuthorityChanges(it.plane.db, 10, []))[0];
    await insertAuthorityChanges(db, org_id, "user", ["usr_a"], new Date("2030-01-01T00:01:00Z"));
    const first = await read();
    await insertAuthorityChanges(db, org_id, "user", ["usr_a"], new Date("2030-01-01T00:00:00Z"));
    assert.equal(await deleteAuthorityChange(db, org_id, "user", "usr_a", first?.version ?? ""), 0);
    const second = await read();
    assert.equal(second?.subject_id, "usr_a");
    assert.equal(await deleteAuthorityChange(db, org_id, "user", "usr_a", second?.version ?? ""), 1);
    assert.equal(await read(), undefined);
  },
);
