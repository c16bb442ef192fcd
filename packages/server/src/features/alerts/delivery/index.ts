import type { Plane } from "../../../context.ts";
import { deleteIsolated, forEachOrg, listOrgIds } from "../../../kernel/retention.ts";
import { deleteDeliveries } from "./store.ts";

export { queueMessages, type Queueing } from "./outbox.ts";
export { channelRoutes } from "./routes.ts";
export { startSender } from "./sender.ts";

/** Deletes finished messages that are older than `before`. */
export async function dropDeliveries(plane: Pick<Plane, "db" | "db_errors" | "log">, before: Date): Promise<void> {
  await forEachOrg(plane, "alert deliveries", await listOrgIds(plane.db), async (org_id) => {
    await deleteIsolated(plane.db_errors.isOutage, (limit, offset) => deleteDeliveries(plane.db, org_id, before, limit, offset));
  });
}
