import type { Plane } from "../../context.ts";
import { isOutage } from "../../engines/db/index.ts";
import { deleteKeysOfDeployment } from "../../kernel/idempotency.ts";
import { deleteInBatches, deleteIsolated } from "../../kernel/retention.ts";
import { lockDeployments } from "./store/deployments.ts";
import {
  deleteAttempts,
  deleteDeployment,
  deleteEvents,
  deleteTargets,
  type FinishedDeployment,
  isStillUnneeded,
  listUnneeded,
  listWithEvents,
  setEventsDropped,
} from "./store/retention.ts";

type RetentionPlane = Pick<Plane, "db" | "clock" | "log">;

const DEPLOYMENTS_A_READ = 200;

/** Deletes the events of deployments that finished before `before`. Keeps their targets and counters. */
export async function dropDeploymentEvents({ db, clock, log }: RetentionPlane, before: Date): Promise<void> {
  for (let after: FinishedDeployment | undefined; ;) {
    const found: FinishedDeployment[] = await listWithEvents(db, before, after, DEPLOYMENTS_A_READ);
    for (const deployment of found)
      await isolated(log, deployment, async () => {
        await deleteInBatches((limit) => deleteEvents(db, deployment, limit));
        await setEventsDropped(db, deployment, clock.now());
      });
    after = found.at(-1);
    if (found.length < DEPLOYMENTS_A_READ) return;
  }
}

/**
 * Deletes deployments that finished before `before`, with their targets, events and idempotency keys, unless they are still needed. Also
 * deletes old records of automatic deployments (`robot_follow`).
 */
export async function dropDeployments({ db, log }: RetentionPlane, before: Date): Promise<void> {
  for (let after: FinishedDeployment | undefined; ;) {
    const found: FinishedDeployment[] = await listUnneeded(db, before, after, DEPLOYMENTS_A_READ);
    for (const deployment of found) await isolated(log, deployment, () => drop(db, deployment, before));
    after = found.at(-1);
    if (found.length < DEPLOYMENTS_A_READ) break;
  }
  await deleteIsolated(isOutage, (limit, offset) => deleteAttempts(db, before, limit, offset));
}

/**
 * Deletes a deployment unless it is needed by now; the page that listed it may be minutes old. A request to retry it or roll it back also
 * locks the deployment's row. So that request finds either all targets or no deployment.
 */
async function drop(db: Plane["db"], deployment: FinishedDeployment, before: Date): Promise<void> {
  const { org_id, id } = deployment;
  await db.transaction(async (tx) => {
    await lockDeployments(tx, org_id, [id]);
    // Checked in a separate statement, which sees what was committed while this transaction waited for the lock.
    if (!(await isStillUnneeded(tx, deployment, before))) return;
    await deleteInBatches((limit) => deleteEvents(tx, deployment, limit));
    await deleteInBatches((limit) => deleteTargets(tx, deployment, limit));
    await deleteKeysOfDeployment(tx, org_id, id);
    await deleteDeployment(tx, deployment);
  });
}

async function isolated(log: Plane["log"], { org_id, id }: FinishedDeployment, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    log.error({ err: error, org_id, deployment_id: id }, "retention failed for a deployment");
  }
}
