import { BLOBS, type S3Context } from "./s3-context.ts";
import { chainOf, removeAll } from "./s3-segments.ts";
import { groupsOf, newestOf, UPLOADS } from "./s3-uploads.ts";

export const STAGING = "staging";
/** Younger objects may belong to a running upload of another server. */
const LEFTOVER_MS = 24 * 3_600_000;

/**
 * Removes leftovers of crashes that are older than a day: bytes never committed, uploads without a beginning, multipart uploads never
 * completed.
 */
export async function sweepLeftovers({ store, retention_clock, log }: S3Context): Promise<void> {
  const before = new Date(retention_clock.now().getTime() - LEFTOVER_MS);
  let objects_removed = 0;
  for (const directory of [STAGING, UPLOADS]) {
    for await (const { objects } of groupsOf(store.list(`${directory}/`))) {
      if (newestOf(objects) >= before || (directory === UPLOADS && chainOf(objects).chain.length > 0)) continue;
      const keys = objects.map(({ key }) => key);
      await removeAll(store, keys);
      objects_removed += keys.length;
    }
  }
  let copies_aborted = 0;
  for await (const { key, id, begun_at } of store.listParts(`${BLOBS}/`)) {
    if (begun_at >= before) continue;
    await store.abortParts(key, id);
    copies_aborted += 1;
  }
  if (objects_removed + copies_aborted > 0) log.info({ objects_removed, copies_aborted }, "leftovers in the S3 store removed");
}
