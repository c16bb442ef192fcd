import type { JsonValue } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { isListOf, isText, readHint } from "../../engines/bus/index.ts";
import { alarm, type Background, background } from "../../kernel/background.ts";
import { recheckAuthorities } from "./cancel/authority-changes.ts";
import { dispatchQueued } from "./dispatch/dispatch.ts";
import { endLateSteps, endPendingTargets } from "./cancel/end-targets.ts";
import { advanceDeployments } from "./create/fan-out.ts";
import { connectionSyncOf } from "./follow/connection-sync.ts";
import { followConnections, followFleets } from "./follow/follow.ts";
import { HINT_FOLLOW } from "./follow/fleet-desired.ts";
import { HINT_AUTHORITY } from "./cancel/note-authority-change.ts";
import { DesiredStateResender, pushDesired } from "./dispatch/push.ts";
import { Postponed } from "./reconciler.ts";
import { repairWaits } from "./dispatch/wake.ts";
import { releaseDue } from "./create/schedule.ts";
import { nextDueAt, nextStepAt } from "./store/claim.ts";
import { HINT_DISPATCH, HINT_PUSH, HINT_ROLLOUT, HINT_SCHEDULED } from "./transition.ts";

/** Interval of the background loops. A hint (bus message) starts a loop earlier; the interval guarantees progress if a hint is lost. */
const WORK_EVERY_MS = 5_000;
const SCHEDULE_EVERY_MS = 30_000;
const REPAIR_EVERY_MS = 30_000;
/** Interval of the check for lost hints. A robot whose hint was lost gets its desired state after at most two intervals. */
const RESEND_EVERY_MS = 15_000;
/** Delay of the next run of a loop after a run that failed, or that left a failed deployment due. */
const FAILED_AGAIN_MS = 5_000;

export interface DeploymentEngine {
  stop(): Promise<void>;
}

/** One run of a background loop: claims due rows and processes them. Resolves to true if more rows may be due. */
type Work = (postponed: Postponed) => Promise<boolean | void>;

/** Starts the loops that advance deployments. Every node runs them; a loop skips rows that another node has locked. */
export function startDeploymentEngine(plane: Plane): DeploymentEngine {
  const { db, bus, clock } = plane;
  const loops: Background[] = [];
  const subscriptions: (() => void)[] = [];
  const start = (name: string, every_ms: number, hints: readonly string[], work: Work): Background => {
    const postponed = new Postponed();
    const loop = background(plane, name, every_ms, () => work(postponed));
    loops.push(loop);
    subscriptions.push(...hints.map((hint) => bus.subscribe(hint, () => loop.wake())));
    return loop;
  };
  const soon = (): Date => new Date(clock.now().getTime() + FAILED_AGAIN_MS);
  const dispatch = start("dispatch", WORK_EVERY_MS, [HINT_DISPATCH], (postponed) => dispatchQueued(db, plane, postponed));
  start("authority", WORK_EVERY_MS, [HINT_AUTHORITY], (postponed) => recheckAuthorities(db, plane, postponed));
  start("endings", WORK_EVERY_MS, [HINT_ROLLOUT], (postponed) => endPendingTargets(db, plane, postponed));
  start("deadlines", WORK_EVERY_MS, [], (postponed) => endLateSteps(db, plane, postponed));
  const next_step = alarm(clock, () => rollouts.wake());
  const rollouts = start("rollouts", WORK_EVERY_MS, [HINT_ROLLOUT], async (postponed) => {
    next_step.set(soon());
    const more = await advanceDeployments(db, plane, postponed);
    const next_at = await nextStepAt(db);
    // A failed rollout stays due, so its due time is ignored here: setting the alarm to it would start the loop again immediately.
    if (!more && (next_at === null || next_at > clock.now())) next_step.set(next_at);
    return more;
  });
  const next_due = alarm(clock, () => schedule.wake());
  const schedule = start("schedule", SCHEDULE_EVERY_MS, [HINT_SCHEDULED], async (postponed) => {
    next_due.set(soon());
    const more = await releaseDue(db, plane, postponed);
    next_due.set(more ? null : (await nextDueAt(db, postponed.ids(clock.now()))).due_at);
    return more;
  });
  const connections = connectionSyncOf(plane);
  const follow = start("follow", WORK_EVERY_MS, [HINT_FOLLOW], async (postponed) => {
    const more = await followConnections(db, plane, connections);
    return (await followFleets(db, plane, postponed, connections)) || more;
  });
  connections.on_add = () => follow.wake();
  start("repair", REPAIR_EVERY_MS, [], async (postponed) => {
    const { woken, more } = await repairWaits(db, plane, postponed);
    if (woken > 0) dispatch.wake();
    return more;
  });
  const resender = new DesiredStateResender(plane);
  start("desired-state resend", RESEND_EVERY_MS, [], () => resender.resend());
  subscriptions.push(
    bus.subscribe(HINT_PUSH, (message) => pushHinted(plane, message)),
    bus.onGap(() => {
      resender.hintsWereLost();
      loops.forEach((loop) => loop.wake());
    }),
  );
  loops.forEach((loop) => loop.wake());
  return {
    stop: async () => {
      subscriptions.forEach((unsubscribe) => unsubscribe());
      connections.on_add = undefined;
      await Promise.all(loops.map((loop) => loop.stop()));
      // Cancel the alarms last: a run that was in progress may have set them again.
      next_due.cancel();
      next_step.cancel();
    },
  };
}

async function pushHinted(plane: Plane, message: JsonValue): Promise<void> {
  const { org_id, robot_ids } = readHint<{ org_id: string; robot_ids: string[] }>(message, { org_id: isText, robot_ids: isListOf(isText) });
  await pushDesired(plane, org_id, robot_ids);
}
