import { isTerminal } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db, SystemDb } from "../../../kernel/db.ts";
import { KeyedBatcher } from "../../../kernel/keyed-batcher.ts";
import { connectionSyncOf } from "../follow/connection-sync.ts";
import { ROLLBACK_SECONDS } from "../policy.ts";
import { lockDeployments } from "../store/deployments.ts";
import { bumpGenerations } from "../store/robot-state.ts";
import {
  listOpenTargets,
  lockTargets,
  type TargetChange,
  wakeWaitingForApproval,
  wakeWaitingForArtifact,
  wakeWaitingForRobots,
} from "../store/targets.ts";
import { type Engine, HINT_DISPATCH, HINT_PUSH, moveAll } from "../transition.ts";
import { type Postponed, processItems } from "../reconciler.ts";
import { listMissed, MISSABLE, MISSED_PER_TURN, wakeMissed } from "../store/claim.ts";

/** Cancels the open targets of a robot that is being removed, in the caller's transaction. */
export async function endTargetsOfRobot(tx: Db, engine: Engine, org_id: string, robot_id: string, actor: Actor): Promise<void> {
  const open = await listOpenTargets(tx, org_id, [robot_id], []);
  if (open.length === 0) return;
  const deployments = await lockDeployments(tx, org_id, [...new Set(open.map(({ deployment_id }) => deployment_id))]);
  const ids = open.map(({ id }) => id);
  const targets = (await lockTargets(tx, org_id, ids)).filter(({ status }) => !isTerminal(status));
  const changes = targets.map((target): TargetChange => ({ target, to: "cancelled", reason: "robot_removed" }));
  const by_deployment = Map.groupBy(changes, ({ target }) => target.deployment_id);
  const moves = deployments.map((deployment) => ({ deployment, changes: by_deployment.get(deployment.id) ?? [] }));
  await moveAll(tx, engine, moves, actor);
}

/** Wakes targets that wait for this release's artifact. */
export async function artifactStored(db: Db, engine: Engine, org_id: string, release_id: string): Promise<void> {
  if ((await wakeWaitingForArtifact(db, org_id, release_id)) > 0) db.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
}

/** Sends an approved robot the secrets withheld so far, and wakes targets that waited for approval. Runs in the caller's transaction. */
export async function robotApproved(tx: Db, engine: Engine, org_id: string, robot_id: string): Promise<void> {
  await wakeWaitingForApproval(tx, org_id, robot_id);
  await bumpGenerations(tx, org_id, [robot_id], engine.clock.now());
  tx.afterCommit(() => {
    engine.bus.publish(HINT_DISPATCH, null);
    engine.bus.publish(HINT_PUSH, { org_id, robot_ids: [robot_id] });
  });
}

const WOKEN_MAX = 500;
const WOKEN_AT_ONCE = 2;
type WakingEngine = Engine & { db: SystemDb };
/** Batchers by bus; each plane has one bus. See `greetings` in push.ts. */
const wakings = new WeakMap<Engine["bus"], KeyedBatcher<string, void>>();

/** Returns the batcher that wakes the targets of robots that connect at the same time. */
function wakingsOf(engine: WakingEngine): KeyedBatcher<string, void> {
  const known = wakings.get(engine.bus);
  if (known !== undefined) return known;
  const made = new KeyedBatcher<string, void>({
    items_max: WOKEN_MAX,
    concurrency_max: WOKEN_AT_ONCE,
    work: async (org_id, robot_ids) => {
      // Use a transaction, because transactions are retried after a deadlock. A transaction that ends these targets may cause one.
      const woken = await engine.db
        .forOrg(org_id)
        .transaction((tx) => wakeWaitingForRobots(tx, org_id, robot_ids, ROLLBACK_SECONDS, engine.clock.now()));
      if (woken > 0) engine.bus.publish(HINT_DISPATCH, null);
      return robot_ids.map(() => undefined);
    },
  });
  wakings.set(engine.bus, made);
  return made;
}

/**
 * Wakes the queued targets of a robot that connected, and queues a check of the robot against its fleet. Call this function after the
 * connection is committed.
 */
export async function robotOnline(engine: WakingEngine, org_id: string, robot_id: string): Promise<void> {
  connectionSyncOf(engine).add(org_id, robot_id);
  await wakingsOf(engine).add(org_id, robot_id);
}

/**
 * Background: wakes targets whose awaited condition already holds, in case a wake-up was lost. Returns how many it woke, and whether there
 * may be more.
 */
export async function repairWaits(
  db: SystemDb,
  engine: Pick<Engine, "clock" | "log">,
  postponed: Postponed,
): Promise<{ woken: number; more: boolean }> {
  const done = { woken: 0, more: false };
  for (const waiting_for of MISSABLE) {
    const missed = await listMissed(db, waiting_for, postponed.ids(engine.clock.now()));
    let woken = 0;
    await processItems(engine, postponed, [missed], async (some) => {
      woken += await wakeMissed(db, waiting_for, some);
    });
    done.woken += woken;
    done.more ||= woken === MISSED_PER_TURN;
  }
  return done;
}
