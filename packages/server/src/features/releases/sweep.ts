import type { Plane } from "../../context.ts";
import { background, type Background } from "../../kernel/background.ts";
import { type Failures, isolateEach } from "../../kernel/isolate-failures.ts";
import { pages } from "../../kernel/page.ts";
import { adoptArtifact, type ArtifactKey, deleteArtifactRow, findArtifact, listUnreferenced, lockArtifact } from "./store.ts";
import { resumableUploads } from "./resumable.ts";
import { blobKey } from "./upload.ts";

const SWEEP_EVERY_MS = 3_600_000;
const EXPIRE_EVERY_MS = 60_000;
/** The first sweep and every 24th sweep after it also search the artifact store for blobs that have no row. */
const LISTING_SWEEPS = 24;
const UNREFERENCED_HOURS = 24;
const BATCH_ROWS_MAX = 500;
const SHA256 = /^[0-9a-f]{64}$/;

/** Starts the job that deletes expired uploads each minute. */
export const startUploadExpiry = (plane: Plane): Background =>
  background(plane, "upload expiry", EXPIRE_EVERY_MS, () => resumableUploads(plane).expire());

/** Starts the hourly job that deletes artifacts that no release has referred to for a day, and leftover bytes of deleted uploads. */
export function startBlobSweep(plane: Plane): Background {
  let sweeps = 0;
  return background(plane, "blob sweep", SWEEP_EVERY_MS, async () => {
    const parts = [() => sweepBlobs(plane), () => resumableUploads(plane).dropLeftovers()];
    if (sweeps % LISTING_SWEEPS === 0) parts.unshift(() => adoptOrphans(plane));
    sweeps += 1;
    const failures = await isolateEach(parts, plane.db_errors.isOutage, (part) => part());
    if (failures !== undefined) throw failures.error;
  });
}

async function sweepBlobs({ db, db_errors, blobs, retention_clock, log }: Plane): Promise<void> {
  const before = new Date(retention_clock.now().getTime() - UNREFERENCED_HOURS * 3_600_000);
  let failures: Failures<unknown> | undefined;
  const read = (last: ArtifactKey = { org_id: "", sha256: "" }) => listUnreferenced(db, before, last, BATCH_ROWS_MAX);
  for await (const due of pages(BATCH_ROWS_MAX, read)) {
    const failed = await isolateEach(due, db_errors.isOutage, async (key) => {
      const removed = await db.forOrg(key.org_id).transaction(async (tx) => {
        const artifact = await lockArtifact(tx, key.org_id, key.sha256);
        if (artifact === undefined || artifact.unreferenced_at === null || artifact.unreferenced_at > before) return false;
        await blobs.delete(blobKey(key.org_id, key.sha256));
        await deleteArtifactRow(tx, key);
        return true;
      });
      if (removed) log.info(key, "artifact removed");
    });
    failures ??= failed;
  }
  if (failures !== undefined) throw failures.error;
}

/** Searches the artifact store for blobs without a row, and records them as unreferenced, so that they are deleted later. */
async function adoptOrphans({ db, db_errors, blobs, clock }: Plane): Promise<void> {
  let failures: Failures<unknown> | undefined;
  for await (const { key, size } of blobs.list("")) {
    const artifact = splitKey(key);
    if (artifact === undefined || (await findArtifact(db, artifact.org_id, artifact.sha256)) !== undefined) continue;
    failures = (await isolateEach([artifact], db_errors.isOutage, (one) => adoptArtifact(db, one, size, clock.now()))) ?? failures;
  }
  if (failures !== undefined) throw failures.error;
}

function splitKey(key: string): ArtifactKey | undefined {
  const [org_id = "", sha256 = ""] = key.split("/");
  return SHA256.test(sha256) ? { org_id, sha256 } : undefined;
}
