import type { Plane } from "../../context.ts";
import type { Db } from "../../kernel/db.ts";
import { type AuthoritySubject, insertAuthorityChanges } from "./store/authority-changes.ts";

export const HINT_AUTHORITY = "rf.deployments.authority";

/**
 * Notes, in the caller's transaction, that people or tokens may do less, that robots were moved, or that
 * fleets follow nothing any more: what is pending is checked
 * soon after the commit. Dispatch checks each target anyway; this ends early what it would end later.
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
