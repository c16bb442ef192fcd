import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { until } from "@roamfleet/clock/testing";
import { PlaneState } from "../../kernel/kernel-plane.ts";
import { sql } from "../../kernel/sql.ts";
import { resumableUploads } from "./resumable.ts";
import { startReleaseRig } from "./testing/release-rig.ts";
import { UploadLeases } from "./upload-leases.ts";

const TIMEOUT = { timeout: 120_000 };
const QUIET_MS = 5_000;
const SIZE = 2_000_000;

/** Starts an upload and two live nodes. */
async function startHolds() {
  const rig = await startReleaseRig();
  const bytes = randomBytes(SIZE);
  const { id: release_id } = (await rig.create("v1", bytes)).body.data;
  const headers = { authorization: `Bearer ${rig.org.token}`, "tus-resumable": "1.0.0" };
  const begun = await fetch(rig.url(release_id), { method: "POST", headers: { ...headers, "upload-length": String(SIZE) } });
  assert.equal(begun.status, 201);
  for (const id of ["node_a", "node_b"])
    await rig.plane.db.run(sql`insert into node (id, epoch, beat, is_over, started_at) values (${id}, 1, 1, false, ${rig.clock.now()})`);
  const plane_b = { ...rig.plane, state: new PlaneState(), node: { id: "node_b", epoch: 1 } };
  return { rig, bytes, headers, plane_b, upload: { org_id: rig.org.org_id, release_id } };
}

/** Starts work that keeps the lease until `end` is called. */
function work(holds: UploadLeases, upload: { org_id: string; release_id: string }) {
  const [began, ends] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const state = { moved_at: undefined as number | undefined, lost: 0 };
  const done = holds.while(upload, { movedAt: () => state.moved_at, lost: () => void (state.lost += 1) }, async () => {
    began.resolve();
    await ends.promise;
  });
  return { state, began: began.promise, done, end: () => (ends.resolve(), done) };
}

test("one node at a time works on an upload, and another takes over when the first is dead", TIMEOUT, async () => {
  const { rig, plane_b, upload } = await startHolds();
  await using _ = rig;
  const [a, b] = [new UploadLeases(rig.plane, QUIET_MS, () => new Date(0)), new UploadLeases(plane_b, QUIET_MS, () => new Date(0))];
  const first = work(a, upload);
  await first.began;
  assert.equal(await work(b, upload).done, undefined);
  assert.deepEqual(await first.end(), { value: undefined });
  const second = work(b, upload);
  await second.began;
  assert.equal(await work(a, upload).done, undefined);
  await rig.plane.db.run(sql`update node set is_over = true where id = 'node_b'`);
  const third = work(a, upload);
  await third.began;
  // The dead node's work ends late and does not release the new lease.
  await second.end();
  assert.equal(await work(b, upload).done, undefined);
  await third.end();
});

test("another node takes over the lease of an upload only when its transfer has stalled", TIMEOUT, async () => {
  const { rig, plane_b, upload } = await startHolds();
  await using _ = rig;
  const { clock } = rig;
  const [a, b] = [new UploadLeases(rig.plane, QUIET_MS, () => new Date(0)), new UploadLeases(plane_b, QUIET_MS, () => new Date(0))];
  const first = work(a, upload);
  await first.began;
  const renewals = async (): Promise<string> =>
    JSON.stringify(await rig.plane.db.many(sql`select holder_beat from artifact_upload where release_id = ${upload.release_id}`));
  const later = async (moves: boolean): Promise<void> => {
    for (let step = 0; step < 4; step += 1) {
      if (moves) first.state.moved_at = clock.monotonic();
      const before = await renewals();
      await clock.advance({ milliseconds: 1_600 });
      if (first.state.moved_at === undefined || moves) await until("the lease to be renewed", async () => (await renewals()) !== before);
    }
  };
  for (const moves of [false, true]) {
    assert.equal(await work(b, upload).done, undefined);
    await later(moves);
    assert.equal(await work(b, upload).done, undefined);
  }
  await later(false);
  const second = work(b, upload);
  await second.began;
  assert.equal(first.state.lost, 0);
  first.state.moved_at = clock.monotonic();
  await clock.advance({ milliseconds: 1_600 });
  await until("the first holder to be notified", () => first.state.lost > 0);
  await first.end();
  assert.equal(await work(a, upload).done, undefined, "it does not release the second holder's lease");
  await second.end();
});

test("returns 423 for an upload that another node works on, and does not expire it", TIMEOUT, async () => {
  const { rig, plane_b, upload, headers, bytes } = await startHolds();
  await using _ = rig;
  const held = work(new UploadLeases(plane_b, QUIET_MS, () => new Date(0)), upload);
  await held.began;
  const look = () => fetch(rig.url(upload.release_id), { method: "HEAD", headers });
  const refused = await look();
  assert.deepEqual([refused.status, refused.headers.get("retry-after")], [423, "1"]);
  await rig.plane.db.run(sql`update artifact_upload set expires_at = ${new Date(0)} where release_id = ${upload.release_id}`);
  await resumableUploads(rig.plane).expire();
  await held.end();
  assert.equal((await look()).status, 200);
  const patch = { ...headers, "content-type": "application/offset+octet-stream", "upload-offset": "0" };
  const done = await fetch(rig.url(upload.release_id), { method: "PATCH", headers: patch, body: Uint8Array.from(bytes) });
  assert.equal(done.status, 204);
  assert.equal(await rig.state(upload.release_id), "stored");
});
