import type { Plane } from "../../../context.ts";
import type { Db } from "../../../kernel/db.ts";
import { type AuthoritySubject, insertAuthorityChanges } from "../store/authority-changes.ts";

export const HINT_AUTHORITY = "rf.deployments.authority";

/**
 * Records, in the caller's transaction, that users or tokens lost permissions, robots were moved, or fleets stopped following. A background
 * loop checks the pending targets soon after the commit. Dispatch also checks each target; the record only ends targets earlier.
 */
export async function noteAuthorityChange(
  tx: Db,
  { clock, bus }: Pick<Plane, "clock" | "bus">,
  org_id: string,
  kind: AuthoritySubject,
  subject_ids: readonly string[],
): Promise<void> {
  if (subject_ids.length === 0) return;
  await insertAuthorityChanges(tx, org_id, kind, subject_ids, clock.now());
  tx.afterCommit(() => bus.publish(HINT_AUTHORITY, null));
}
