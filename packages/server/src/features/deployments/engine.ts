import type { JsonValue } from "@robofleet/protocol";
import type { Plane } from "../../context.ts";
import { background } from "../../kernel/background.ts";
import { continueCancellations } from "./cancel.ts";
import { dispatchQueued } from "./dispatch.ts";
import { continueFanOuts, HINT_FAN_OUT } from "./fan-out.ts";
import { arrivalsOf } from "./arrivals.ts";
import { followArrivals, followFleets } from "./follow.ts";
import { HINT_FOLLOW } from "./follow-hint.ts";
import { pushDesired } from "./push.ts";
import { continueRollbacks } from "./rollback.ts";
import { releaseDue } from "./schedule.ts";
import { nextDueAt } from "./store/deployments.ts";
import { MISSED_PER_TURN, wakeMissed, wakeMissedArtifact, wakeMissedPrevious } from "./store/targets.ts";
import { endLateSteps, expireDeployments } from "./time-out.ts";
import { advanceRollouts } from "./waves.ts";
import { nextStep } from "./store/waves.ts";
import { HINT_DISPATCH, HINT_PUSH, HINT_ROLLOUT, HINT_SCHEDULED } from "./transition.ts";

/** Hints make things quick; these intervals make them certain. */
const DISPATCH_EVERY_MS = 5_000;
const SCHEDULE_EVERY_MS = 30_000;
const ROLLOUTS_EVERY_MS = 30_000;
const DEADLINES_EVERY_MS = 5_000;
const REPAIR_EVERY_MS = 30_000;

export interface DeploymentEngine {
  stop(): Promise<void>;
}

/** Starts the loops that move deployments on. Every node runs them; rows that one holds are skipped by the others. */
export function startDeploymentEngine(plane: Plane): DeploymentEngine {
  const { db, bus, clock } = plane;
  const dispatch = background(plane, "dispatch", DISPATCH_EVERY_MS, () => dispatchQueued(db, plane));
  const fan_out = background(plane, "fan-out", DISPATCH_EVERY_MS, () => continueFanOuts(db, plane));
  const cancellations = background(plane, "cancellations", DISPATCH_EVERY_MS, () => continueCancellations(db, plane));
  const rollbacks = background(plane, "rollbacks", DISPATCH_EVERY_MS, () => continueRollbacks(db, plane));
  const arrivals = arrivalsOf(plane);
  const follow = background(plane, "follow", DISPATCH_EVERY_MS, async () => {
    const more = await followArrivals(db, plane, arrivals);
    return (await followFleets(db, plane)) || more;
  });
  arrivals.on_arrival = () => follow.wake();
  let next_step = clock.setTimer(0, () => rollouts.wake());
  const rollouts = background(plane, "rollouts", ROLLOUTS_EVERY_MS, async () => {
    const more = await advanceRollouts(db, plane);
    const step_at = (await nextStep(db))?.step_at ?? null;
    next_step.cancel();
    if (step_at !== null && !more)
      next_step = clock.setTimer(Math.min(step_at.getTime() - clock.now().getTime(), ROLLOUTS_EVERY_MS), () => rollouts.wake());
    return more;
  });
  const deadlines = background(plane, "deadlines", DEADLINES_EVERY_MS, async () => {
    const late = await endLateSteps(db, plane);
    return (await expireDeployments(db, plane)) || late;
  });
  const repair = background(plane, "repair", REPAIR_EVERY_MS, async () => {
    const woken = [await wakeMissed(db), await wakeMissedArtifact(db), await wakeMissedPrevious(db)];
    if (woken.some((count) => count > 0)) dispatch.wake();
    return woken.includes(MISSED_PER_TURN);
  });
  let alarm = clock.setTimer(0, () => schedule.wake());
  const schedule = background(plane, "schedule", SCHEDULE_EVERY_MS, async () => {
    const more = await releaseDue(db, plane);
    const { due_at } = await nextDueAt(db);
    alarm.cancel();
    if (due_at !== null)
      alarm = clock.setTimer(Math.min(due_at.getTime() - clock.now().getTime(), SCHEDULE_EVERY_MS), () => schedule.wake());
    return more;
  });
  const loops = [dispatch, fan_out, cancellations, rollbacks, follow, rollouts, deadlines, repair, schedule];
  const subscriptions = [
    bus.subscribe(HINT_DISPATCH, () => dispatch.wake()),
    bus.subscribe(HINT_FAN_OUT, () => fan_out.wake()),
    bus.subscribe(HINT_ROLLOUT, () => {
      rollbacks.wake();
      rollouts.wake();
    }),
    bus.subscribe(HINT_FOLLOW, () => follow.wake()),
    bus.subscribe(HINT_SCHEDULED, () => schedule.wake()),
    bus.subscribe(HINT_PUSH, (message) => pushHinted(plane, message)),
    bus.onGap(() => loops.forEach((loop) => loop.wake())),
  ];
  loops.forEach((loop) => loop.wake());
  return {
    stop: async () => {
      subscriptions.forEach((unsubscribe) => unsubscribe());
      arrivals.on_arrival = undefined;
      await Promise.all(loops.map((loop) => loop.stop()));
      // Last: a run that was under way has set it anew.
      alarm.cancel();
      next_step.cancel();
    },
  };
}

async function pushHinted(plane: Plane, message: JsonValue): Promise<void> {
  const { org_id, robot_ids } = message as { org_id: string; robot_ids: string[] };
  await pushDesired(plane, org_id, robot_ids);
}
