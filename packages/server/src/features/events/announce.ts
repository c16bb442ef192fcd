import type { Change } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";

/** A change with fields that are not sent to readers. */
export interface AnnouncedChange extends Change {
  /**
   * The places of the object, the present one first; several for an object that was moved. Without them, places are looked up
   * when a reader is limited to places. Pass them for objects that cannot be found any more.
   */
  places?: readonly Place[];
}

/** A message on the bus: changes of one org in order, or `lost` when there were too many. */
export type ChangesMessage = { changes: AnnouncedChange[] } | { lost: true };

/** Maximum changes of one org in a transaction, about 800 KB. If there are more, all readers are asked to reload. */
export const CHANGES_PER_MESSAGE_MAX = 5_000;

export const changesSubject = (org_id: string): string => `rf.changes.${org_id}`;

/** Changes of each org so far, by kind and id; null: too many. */
type Batch = Map<string, Map<string, AnnouncedChange> | null>;

/** By transaction. A rollback discards them with the transaction. */
const gathered = new WeakMap<Db, Batch>();

/**
 * Publishes changes to the readers of the org after the commit: one message for each org of a transaction, one change for
 * each object in it, nothing after a rollback. Best effort: it may be lost, never fails and is not awaited. Without readers it
 * costs only the array.
 */
export function announce(db: Db, { bus }: Pick<Plane, "bus">, org_id: string, changes: AnnouncedChange | readonly AnnouncedChange[]): void {
  const more: readonly AnnouncedChange[] = "kind" in changes ? [changes] : changes;
  if (more.length === 0) return;
  const known = gathered.get(db);
  const batch: Batch = known ?? new Map();
  gather(batch, org_id, more);
  if (known !== undefined) return;
  gathered.set(db, batch);
  // Outside a transaction this runs immediately.
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
    // Move it to the end, after the changes that caused it. A created object stays first: others may refer to it.
    if (before !== undefined && before.change !== "created") own.delete(key);
    own.set(key, before === undefined ? change : merge(before, change));
  }
  batch.set(org_id, own.size > CHANGES_PER_MESSAGE_MAX ? null : own);
}

/** `moved`, `created` and `removed` say more than other changes and are not replaced by them. */
const WEIGHTS: Record<string, number> = { moved: 1, created: 2, removed: 3 };
const weightOf = ({ change }: AnnouncedChange): number => WEIGHTS[change] ?? 0;

/** Merges two changes of one object: the state in between was never visible outside the transaction. */
const merge = (before: AnnouncedChange, next: AnnouncedChange): AnnouncedChange => ({
  ...before,
  ...next,
  change: weightOf(before) > weightOf(next) ? before.change : next.change,
});
