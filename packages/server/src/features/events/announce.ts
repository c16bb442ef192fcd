import type { Change } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import type { Place } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";

/** A change with what readers are not told. */
export interface AnnouncedChange extends Change {
  /**
   * Where it is, the present place first; more than one for what was moved. Without them they are looked up where readers
   * limited to places want to know: give them for what cannot be found any more.
   */
  places?: readonly Place[];
}

/** What goes over the bus: changes of one org in their order, or that there were too many to be told. */
export type ChangesMessage = { changes: AnnouncedChange[] } | { lost: true };

/** Changes that one transaction tells of: some 800 KB. Whoever moves more at once has everybody read again. */
export const CHANGES_PER_MESSAGE_MAX = 5_000;

export const changesSubject = (org_id: string): string => `rf.changes.${org_id}`;

/** What changed in an org so far, by kind and id; null: too much. */
type Batch = Map<string, Map<string, AnnouncedChange> | null>;

/** By transaction; one that is rolled back takes its own along. */
const gathered = new WeakMap<Db, Batch>();

/**
 * Tells whoever watches the org that something changed, once it is committed: one message for each org of a transaction, one
 * change for each object in it, and nothing for what is rolled back. A hint: it may be lost, it never fails and nobody waits
 * for it. Where nobody watches the org it costs the array.
 */
export function announce(db: Db, { bus }: Pick<Plane, "bus">, org_id: string, changes: AnnouncedChange | readonly AnnouncedChange[]): void {
  const more: readonly AnnouncedChange[] = "kind" in changes ? [changes] : changes;
  if (more.length === 0) return;
  const known = gathered.get(db);
  const batch: Batch = known ?? new Map();
  gather(batch, org_id, more);
  if (known !== undefined) return;
  gathered.set(db, batch);
  // Outside of a transaction this happens at once.
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
    // In its last place, behind what led to it; but nothing is told of before it was made.
    if (before !== undefined && before.change !== "created") own.delete(key);
    own.set(key, before === undefined ? change : together(before, change));
  }
  batch.set(org_id, own.size > CHANGES_PER_MESSAGE_MAX ? null : own);
}

/** What says more than that something is otherwise is not outdone by that. */
const WEIGHTS: Record<string, number> = { moved: 1, created: 2, removed: 3 };
const weightOf = ({ change }: AnnouncedChange): number => WEIGHTS[change] ?? 0;

/** Nobody but the transaction saw what was in between. */
const together = (before: AnnouncedChange, next: AnnouncedChange): AnnouncedChange => ({
  ...before,
  ...next,
  change: weightOf(before) > weightOf(next) ? before.change : next.change,
});
