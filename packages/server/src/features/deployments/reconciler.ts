import { isTerminal } from "@roamfleet/protocol";
import { isConnectionLost } from "../../engines/db/index.ts";
import type { Db, SystemDb } from "../../kernel/db.ts";
import { isolateFailures } from "../../kernel/isolate-failures.ts";
import { lockDeployments } from "./store/deployments.ts";
import type { DeploymentRow, TargetRow } from "./store/rows.ts";
import { lockTargets } from "./store/targets.ts";
import type { Engine } from "./transition.ts";

const FIRST_RETRY_MS = 5_000;
const RETRY_MS_MAX = 300_000;
const LOG_EVERY_MS = 60_000;
/** Maximum failing items that one loop remembers. Beyond that, the oldest is evicted, and therefore retried early. */
const FAILING_MAX = 1_000;

/** The items of one background loop that failed on this node. Claims skip each item until its next attempt. */
export class Postponed {
  readonly #failing = new Map<string, { attempts: number; next_at_ms: number }>();
  readonly #logged_at_ms = new Map<string, number>();

  /** Ids to leave out of the next claim. */
  ids(now: Date): string[] {
    return [...this.#failing].flatMap(([id, { next_at_ms }]) => (next_at_ms > now.getTime() ? [id] : []));
  }

  succeeded(id: string): void {
    this.#failing.delete(id);
  }

  /** Postpones the item with exponential backoff. Returns whether the failure should be logged: once a minute for each kind of work. */
  failed(id: string, now: Date, work = ""): boolean {
    const attempts = (this.#failing.get(id)?.attempts ?? 0) + 1;
    this.#failing.delete(id);
    this.#failing.set(id, { attempts, next_at_ms: now.getTime() + Math.min(RETRY_MS_MAX, FIRST_RETRY_MS * 2 ** (attempts - 1)) });
    const [oldest] = this.#failing.keys();
    if (this.#failing.size > FAILING_MAX && oldest !== undefined) this.#failing.delete(oldest);
    if (now.getTime() - (this.#logged_at_ms.get(work) ?? -Infinity) < LOG_EVERY_MS) return false;
    this.#logged_at_ms.set(work, now.getTime());
    return true;
  }
}

/** A claimed piece of work: a target of a deployment or, without `deployment_id`, a deployment or another row. */
export interface WorkItem {
  org_id: string;
  id: string;
  deployment_id?: string;
  /** The kind of work, for the log. */
  work?: string;
}

/**
 * Applies claimed work with one call of `apply` per batch. A batch that fails is bisected to find the failing items. These are postponed
 * with backoff and logged, and all other items are applied. If very many items fail, some items that would not fail are left for the next
 * run. If every target of a deployment in a batch fails, the deployment is postponed. Throws only if the connection to the database is
 * lost.
 */
export async function processItems<T extends WorkItem>(
  { clock, log }: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
  batches: Iterable<readonly T[]>,
  apply: (items: readonly T[]) => Promise<unknown>,
): Promise<void> {
  for (const batch of batches) {
    const failures = await isolateFailures(batch, isConnectionLost, apply);
    const failed = new Set(failures?.failed);
    const succeeded = batch.filter((item) => !failed.has(item));
    for (const item of succeeded) postponed.succeeded(item.id);
    const partly = new Set(succeeded.map(({ deployment_id }) => deployment_id));
    for (const id of partly) if (id !== undefined) postponed.succeeded(id);
    const undivided = new Set(failures?.undivided);
    const isolated = [...failed].filter((item) => !undivided.has(item) || !partly.has(item.deployment_id));
    const postpone = new Map(isolated.map((item) => [partly.has(item.deployment_id) ? item.id : (item.deployment_id ?? item.id), item]));
    for (const [id, { org_id, deployment_id, work }] of postpone)
      if (postponed.failed(id, clock.now(), work))
        log.error({ err: failures?.error, work, org_id, deployment_id, id }, "a background task failed for one item");
  }
}

/** Like `processItems`, with one item per call of `apply`. */
export const processEach = <T extends WorkItem>(
  engine: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
  items: readonly T[],
  apply: (item: T) => Promise<unknown>,
): Promise<void> =>
  processItems(
    engine,
    postponed,
    items.map((item) => [item]),
    ([item]) => (item === undefined ? Promise.resolve() : apply(item)),
  );

/** Groups claimed targets into one batch per deployment. */
export const byDeployment = <T extends { deployment_id: string }>(targets: readonly T[]): T[][] => [
  ...Map.groupBy(targets, ({ deployment_id }) => deployment_id).values(),
];

/**
 * Packs groups, in their order and undivided, into batches of at most `weight_max`. A heavier group gets its own batch. The weight of a group
 * is its number of items by default.
 */
export function batchGroups<T>(
  groups: Iterable<readonly T[]>,
  weight_max: number,
  weightOf: (group: readonly T[]) => number = (group) => group.length,
): T[][] {
  const batches: T[][] = [];
  let weight = Infinity;
  for (const group of groups) {
    const more = weightOf(group);
    if (weight + more > weight_max) {
      batches.push([]);
      weight = 0;
    }
    batches.at(-1)?.push(...group);
    weight += more;
  }
  return batches;
}

/** Locks a deployment in a transaction and calls `work` with it. Skips a deployment that has ended or does not exist. */
export const withDeployment = (
  db: SystemDb,
  org_id: string,
  id: string,
  work: (tx: Db, deployment: DeploymentRow) => Promise<unknown>,
): Promise<void> =>
  db.forOrg(org_id).transaction(async (tx) => {
    const [row] = await lockDeployments(tx, org_id, [id]);
    if (row !== undefined && !isTerminal(row.status)) await work(tx, row);
  });

/** Like `withDeployment`, and also locks the claimed targets, which must belong to one deployment. */
export async function withTargets(
  db: SystemDb,
  claimed: readonly { org_id: string; deployment_id: string; id: string }[],
  work: (tx: Db, deployment: DeploymentRow, targets: TargetRow[]) => Promise<unknown>,
): Promise<void> {
  const [first] = claimed;
  if (first === undefined) return;
  const ids = claimed.map(({ id }) => id);
  await withDeployment(db, first.org_id, first.deployment_id, async (tx, deployment) =>
    work(tx, deployment, await lockTargets(tx, first.org_id, ids)),
  );
}
