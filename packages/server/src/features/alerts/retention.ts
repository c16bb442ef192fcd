import type { Plane } from "../../context.ts";
import { deleteIsolated, forEachOrg, listOrgIds } from "../../kernel/retention.ts";
import { deleteOldEntries, deleteOldIncidents, deleteOldMembers, deleteOldMutes } from "./store-retention.ts";

/** Deletes incidents that were resolved before a time, with their members and entries, and mutes that ended before it. */
export async function dropIncidents({ db, db_errors, log }: Pick<Plane, "db" | "db_errors" | "log">, before: Date): Promise<void> {
  await forEachOrg({ log }, "incidents", await listOrgIds(db), async (org_id) => {
    // An incident may have a member for each robot, so members are not left to the cascade.
    for (const remove of [deleteOldMembers, deleteOldEntries, deleteOldMutes])
      await deleteIsolated(db_errors.isOutage, (limit, offset) => remove(db, org_id, before, limit, offset));
    const incidents = await deleteIsolated(db_errors.isOutage, (limit, offset) => deleteOldIncidents(db, org_id, before, limit, offset));
    if (incidents > 0) log.info({ org_id, incidents, before: before.toISOString() }, "deleted old incidents");
  });
}
