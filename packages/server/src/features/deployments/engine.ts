import type { JsonValue } from "@roamfleet/protocol";
import type { Plane } from "../../context.ts";
import { isListOf, isText, readHint } from "../../engines/bus/index.ts";
import { alarm, type Background, background } from "../../kernel/background.ts";
import { recheckAuthorities } from "./authority-changes.ts";
import { continueCancellations } from "./cancel.ts";
import { dispatchQueued } from "./dispatch.ts";
import { Postponed } from "./each-apart.ts";
import { continueFanOuts, HINT_FAN_OUT } from "./fan-out.ts";
import { arrivalsOf } from "./arrivals.ts";
import { followArrivals, followFleets } from "./follow.ts";
import { HINT_FOLLOW } from "./follow-hint.ts";
import { HINT_AUTHORITY } from "./note-authority-change.ts";
import { pushDesired } from "./push.ts";
import { repairWaits } from "./repair.ts";
import { continueRollbacks } from "./rollback.ts";
import { releaseDue } from "./schedule.ts";
import { nextDueAt } from "./store/deployments.ts";
import { endLateSteps, expireDeployments } from "./time-out.ts";
import { UntoldRobots } from "./untold.ts";
import { advanceRollouts } from "./waves.ts";
import { nextStep } from "./store/waves.ts";
import { HINT_DISPATCH, HINT_PUSH, HINT_ROLLOUT, HINT_SCHEDULED } from "./transition.ts";

/** Hints wake the loops early; these intervals guarantee progress if a hint is lost. */
const DISPATCH_EVERY_MS = 5_000;
const SCHEDULE_EVERY_MS = 30_000;
const ROLLOUTS_EVERY_MS = 30_000;
const DEADLINES_EVERY_MS = 5_000;
const REPAIR_EVERY_MS = 30_000;
/** A robot whose hint was lost unnoticed gets its desired state after at most two of these intervals. */
const UNTOLD_EVERY_MS = 15_000;
/** After a run failed for one deployment, the next due time of the others is read again after this delay. */
const FAILED_AGAIN_SECONDS = 5;

export interface DeploymentEngine {
  stop(): Promise<void>;
}

/** Starts the loops that advance deployments. Every node runs them; a loop skips rows that another node has locked. */
export function startDeploymentEngine(plane: Plane): DeploymentEngine {
  const { db, bus, clock } = plane;
  const postponed = postponedByLoop();
  const dispatch = background(plane, "dispatch", DISPATCH_EVERY_MS, () => dispatchQueued(db, plane, postponed.dispatchQueued));
  const fan_out = background(plane, "fan-out", DISPATCH_EVERY_MS, () => continueFanOuts(db, plane, postponed.continueFanOuts));
  const cancellations = background(plane, "cancellations", DISPATCH_EVERY_MS, () =>
    continueCancellations(db, plane, undefined, postponed.continueCancellations),
  );
  const rollbacks = background(plane, "rollbacks", DISPATCH_EVERY_MS, () =>
    continueRollbacks(db, plane, undefined, postponed.continueRollbacks),
  );
  const authority = background(plane, "authority", DISPATCH_EVERY_MS, () => recheckAuthorities(db, plane, postponed.recheckAuthorities));
  const arrivals = arrivalsOf(plane);
  const follow = background(plane, "follow", DISPATCH_EVERY_MS, async () => {
    const more = await followArrivals(db, plane, arrivals);
    return (await followFleets(db, plane, postponed.followFleets, arrivals)) || more;
  });
  arrivals.on_arrival = () => follow.wake();
  const next_step = alarm(clock, () => rollouts.wake());
  const rollouts = background(plane, "rollouts", ROLLOUTS_EVERY_MS, async () => {
    next_step.set(inSeconds(plane, FAILED_AGAIN_SECONDS));
    const more = await advanceRollouts(db, plane, postponed.advanceRollouts);
    const next_at = (await nextStep(db))?.step_at ?? null;
    // A failed rollout stays due: it must not wake the loop immediately.
    if (!more && (next_at === null || next_at > clock.now())) next_step.set(next_at);
    return more;
  });
  const deadlines = background(plane, "deadlines", DEADLINES_EVERY_MS, async () => {
    const late = await endLateSteps(db, plane, postponed.endLateSteps);
    return (await expireDeployments(db, plane, postponed.expireDeployments)) || late;
  });
  const repair = background(plane, "repair", REPAIR_EVERY_MS, () => wakeAllMissed(plane, postponed.repairWaits, dispatch));
  const untold = new UntoldRobots(plane);
  const resend = background(plane, "desired-state resend", UNTOLD_EVERY_MS, () => untold.tell());
  const next_due = alarm(clock, () => schedule.wake());
  const schedule = background(plane, "schedule", SCHEDULE_EVERY_MS, async () => {
    next_due.set(inSeconds(plane, FAILED_AGAIN_SECONDS));
    const more = await releaseDue(db, plane, postponed.releaseDue);
    next_due.set(more ? null : (await nextDueAt(db, postponed.releaseDue.ids(clock.now()))).due_at);
    return more;
  });
  const loops = [dispatch, authority, fan_out, cancellations, rollbacks, follow, rollouts, deadlines, repair, resend, schedule];
  const subscriptions = [
    bus.subscribe(HINT_DISPATCH, () => dispatch.wake()),
    bus.subscribe(HINT_AUTHORITY, () => authority.wake()),
    bus.subscribe(HINT_FAN_OUT, () => fan_out.wake()),
    bus.subscribe(HINT_ROLLOUT, () => {
      rollbacks.wake();
      rollouts.wake();
    }),
    bus.subscribe(HINT_FOLLOW, () => follow.wake()),
    bus.subscribe(HINT_SCHEDULED, () => schedule.wake()),
    bus.subscribe(HINT_PUSH, (message) => pushHinted(plane, message)),
    bus.onGap(() => {
      untold.missed();
      loops.forEach((loop) => loop.wake());
    }),
  ];
  loops.forEach((loop) => loop.wake());
  return {
    stop: async () => {
      subscriptions.forEach((unsubscribe) => unsubscribe());
      arrivals.on_arrival = undefined;
      await Promise.all(loops.map((loop) => loop.stop()));
      // Last: a run that was in progress may have set it again.
      next_due.cancel();
      next_step.cancel();
    },
  };
}

/** The items that each loop leaves out of its claims because they failed. */
const postponedByLoop = () => ({
  dispatchQueued: new Postponed(),
  releaseDue: new Postponed(),
  repairWaits: new Postponed(),
  continueFanOuts: new Postponed(),
  continueCancellations: new Postponed(),
  continueRollbacks: new Postponed(),
  recheckAuthorities: new Postponed(),
  followFleets: new Postponed(),
  advanceRollouts: new Postponed(),
  endLateSteps: new Postponed(),
  expireDeployments: new Postponed(),
});

/** Wakes targets whose awaited condition already holds. Returns true if there may be more. */
async function wakeAllMissed(plane: Plane, postponed: Postponed, dispatch: Background): Promise<boolean> {
  const { woken, more } = await repairWaits(plane.db, plane, postponed);
  if (woken > 0) dispatch.wake();
  return more;
}

const inSeconds = ({ clock }: Plane, seconds: number): Date => new Date(clock.now().getTime() + seconds * 1_000);

async function pushHinted(plane: Plane, message: JsonValue): Promise<void> {
  const { org_id, robot_ids } = readHint<{ org_id: string; robot_ids: string[] }>(message, { org_id: isText, robot_ids: isListOf(isText) });
  await pushDesired(plane, org_id, robot_ids);
}
