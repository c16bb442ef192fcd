import type { Plane } from "../../context.ts";
import { deleteKeysOfDeployment } from "../../kernel/idempotency.ts";
import { deleteInBatches } from "../../kernel/retention.ts";
import {
  deleteDeployment,
  deleteEvents,
  deleteTargets,
  type FinishedDeployment,
  listUnneeded,
  listWithEvents,
  setEventsDropped,
} from "./store/retention.ts";

type RetentionPlane = Pick<Plane, "db" | "clock" | "log">;

const DEPLOYMENTS_A_READ = 200;

/** Deletes the events of deployments that finished before that time. Targets and counters stay. */
export async function dropDeploymentEvents({ db, clock, log }: RetentionPlane, before: Date): Promise<void> {
  const failed = new Set<string>();
  for (;;) {
    const found = await listWithEvents(db, before, DEPLOYMENTS_A_READ);
    const some = found.filter(({ id }) => !failed.has(id));
    for (const deployment of some) {
      await isolated(log, deployment, failed, async () => {
        await deleteInBatches((limit) => deleteEvents(db, deployment, limit));
        await setEventsDropped(db, deployment, clock.now());
      });
    }
    if (some.length === 0 || found.length < DEPLOYMENTS_A_READ) return;
  }
}

/** Deletes deployments that finished before that time, with their targets, events and idempotency keys, unless something still needs them. */
export async function dropDeployments({ db, log }: RetentionPlane, before: Date): Promise<void> {
  const failed = new Set<string>();
  for (let after: FinishedDeployment | undefined; ;) {
    const found: FinishedDeployment[] = await listUnneeded(db, before, after, DEPLOYMENTS_A_READ);
    for (const deployment of found) await isolated(log, deployment, failed, () => drop(db, deployment));
    after = found.at(-1);
    if (found.length < DEPLOYMENTS_A_READ) return;
  }
}

/** What is large goes first, in batches; the rest cascades. Interrupted, the next run continues. */
async function drop(db: Plane["db"], deployment: FinishedDeployment): Promise<void> {
  await deleteInBatches((limit) => deleteEvents(db, deployment, limit));
  await deleteInBatches((limit) => deleteTargets(db, deployment, limit));
  await db.transaction(async (tx) => {
    await deleteKeysOfDeployment(tx, deployment.org_id, deployment.id);
    await deleteDeployment(tx, deployment);
  });
}

async function isolated(
  log: Plane["log"],
  { org_id, id }: FinishedDeployment,
  failed: Set<string>,
  work: () => Promise<void>,
): Promise<void> {
  try {
    await work();
  } catch (error) {
    failed.add(id);
    log.error({ err: error, org_id, deployment_id: id }, "retention failed for a deployment");
  }
}
