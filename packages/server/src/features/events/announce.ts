import type { Change } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";

/** A change to publish. Has additional fields that readers do not get. */
export interface AnnouncedChange extends Change {
  /**
   * The places (site and fleet) of the object, the current one first; several if the object was moved. If absent, the places are looked up
   * in the database when a reader may see only certain places. Set this field for objects that no longer exist.
   */
  places?: readonly Place[];
}

/** A message on the bus: changes of one org in order, or `lost` in place of too many changes. */
export type ChangesMessage = { changes: AnnouncedChange[] } | { lost: true };

/** Maximum changes of one org in a transaction, about 800 KB. If there are more, all readers are notified to reload instead. */
export const CHANGES_PER_MESSAGE_MAX = 5_000;

export const changesSubject = (org_id: string): string => `rf.changes.${org_id}`;

/** The changes that a transaction has announced so far, by org, and then by kind and id. Null for an org with too many changes. */
type Batch = Map<string, Map<string, AnnouncedChange> | null>;

/** The changes that each transaction has announced so far. A rollback discards them with the transaction. */
const gathered = new WeakMap<Db, Batch>();

/**
 * Publishes changes to the readers of the org after the commit: one message per org and transaction, with one change per object. Publishes
 * nothing after a rollback. Best effort: a message may be lost. The call never fails and never waits.
 */
export function announce(db: Db, { bus }: Pick<Plane, "bus">, org_id: string, changes: AnnouncedChange | readonly AnnouncedChange[]): void {
  const more: readonly AnnouncedChange[] = "kind" in changes ? [changes] : changes;
  if (more.length === 0) return;
  const known = gathered.get(db);
  const batch: Batch = known ?? new Map();
  gather(batch, org_id, more);
  if (known !== undefined) return;
  gathered.set(db, batch);
  // Outside a transaction, the callback runs immediately.
  db.afterCommit(() => {
    gathered.delete(db);
    for (const [of, own] of batch) {
      const message: ChangesMessage = own === null ? { lost: true } : { changes: [...own.values()] };
      bus.publish(changesSubject(of), message as never);
    }
  });
}

function gather(batch: Batch, org_id: string, more: readonly AnnouncedChange[]): void {
  const own = batch.get(org_id) ?? new Map<string, AnnouncedChange>();
  if (batch.get(org_id) === null) return;
  for (const change of more) {
    const key = `${change.kind} ${change.id}`;
    const before = own.get(key);
    // Move the object's change to the end, after the changes that caused it. Keep the position of a `created` change, because later changes
    // may refer to the object.
    if (before !== undefined && before.change !== "created") own.delete(key);
    own.set(key, before === undefined ? change : merge(before, change));
  }
  batch.set(org_id, own.size > CHANGES_PER_MESSAGE_MAX ? null : own);
}

/** Weight of each type of change; 0 for all others. When changes are merged, a change does not replace an earlier one of greater weight. */
const WEIGHTS: Record<string, number> = { moved: 1, created: 2, removed: 3 };
const weightOf = ({ change }: AnnouncedChange): number => WEIGHTS[change] ?? 0;

/** Merges two changes of one object in a transaction into one, because the state between them was never visible to others. */
const merge = (before: AnnouncedChange, next: AnnouncedChange): AnnouncedChange => ({
  ...before,
  ...next,
  change: weightOf(before) > weightOf(next) ? before.change : next.change,
});
