import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import { deleteIsolated, forEachOrg } from "../../kernel/retention.ts";
import { deleteEntries, listOrgsWithEntries } from "./store-retention.ts";

/** Deletes the entries of all robots older than that time. */
export async function dropTimelineEntries({ db, log }: Pick<Plane, "db" | "log">, before: Date): Promise<void> {
  await forEachOrg({ log }, "timeline", await listOrgsWithEntries(db), async (org_id) => {
    const entries = await deleteIsolated(isOutage, (limit, offset) => deleteEntries(db, org_id, before, limit, offset));
    if (entries > 0) log.info({ org_id, entries, before: before.toISOString() }, "deleted old timeline entries");
  });
}
