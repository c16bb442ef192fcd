import { isTerminal, type Reason, type TargetStatus } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { deploymentSentence, targetSentence } from "./messages.ts";
import { followAgain, keepFleetDesired, stopFollowing } from "./fleet-desired.ts";
import { type Settled, settle } from "./settle.ts";
import { announceEvents } from "./tell.ts";
import { COUNTED_EVERY_MS, usesPeriodicCount, wakeSlots } from "./slots.ts";
import { counterOf, type Counts, isActive, isOver, mayDispatch } from "./state.ts";
import { beginDeployments } from "./store/begin-deployments.ts";
import { insertEvents, insertEventsOfMany } from "./store/events.ts";
import { updateDeployment } from "./store/deployments.ts";
import type { DeploymentRow, EventRow, WaveRow } from "./store/rows.ts";
import { countReasons } from "./reason-counts.ts";
import { moveWaveCounters, setWaveProgress, type WaveDelta } from "./store/waves.ts";
import { changeTargets, type TargetChange, wakeWaitingForPrevious } from "./store/targets.ts";
import { countsOf } from "./wire.ts";

/** The parts of the plane that the engine needs to advance a deployment. */
export type Engine = Pick<Plane, "clock" | "id" | "log" | "metrics" | "bus" | "secrets">;

/** To create a deployment, the limits are needed too. */
export type CreateContext = Engine & Pick<Plane, "settings">;

export const HINT_DISPATCH = "rf.deployments.dispatch";
export const HINT_PUSH = "rf.deployments.push";
export const HINT_SCHEDULED = "rf.deployments.scheduled";
/** A rollout, a stop or a rollback has work to do. */
export const HINT_ROLLOUT = "rf.deployments.rollout";

const NO_CHANGE: Counts = { total: 0, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };

/**
 * Moves targets of one deployment, whose row the caller has locked, and the deployment with them: writes states, counters, events and
 * timelines in the caller's transaction. The only place where a target's status is written.
 */
export async function moveTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  wanted: readonly TargetChange[],
  actor: Actor,
): Promise<DeploymentRow> {
  if (wanted.length === 0) return deployment;
  const { org_id, id } = deployment;
  const now = engine.clock.now();
  const changed = new Set((await changeTargets(tx, org_id, id, wanted, now)).map((row) => row.id));
  const changes = wanted.filter((change) => changed.has(change.target.id));
  if (changes.length < wanted.length)
    engine.log.warn({ deployment_id: id, lost: wanted.length - changes.length }, "targets changed before their update");
  if (changes.length === 0) return deployment;

  const delta = { ...NO_CHANGE };
  for (const { target, to } of changes) {
    delta[counterOf(target.status)] -= 1;
    delta[counterOf(to)] += 1;
  }
  const reason_counts = countReasons(deployment.reason_counts, changes);
  const waves = deployment.rollout.waves === undefined ? [] : await moveWaveCounters(tx, org_id, id, waveDeltas(changes));
  const dispatched = changes.filter(({ target, to }) => target.attempt === 0 && HANDED_OUT.includes(to)).length;
  const after = settle({ ...deployment, reason_counts }, delta, dispatched);
  const moved = after.status !== deployment.status;
  const step = stepAfter(deployment, after, waves);
  // A stop is recorded as an event even if the status does not change.
  const notes = after.halt === "stop" && !moved ? 1 : 0;
  const row = await updateDeployment(
    tx,
    org_id,
    id,
    {
      status: after.status,
      reason: after.reason,
      delta,
      reason_counts,
      dispatched,
      halt: after.halt,
      step_at: step ? now : null,
      events: changes.length + (moved ? 1 : 0) + notes,
      started_at: after.status === "in_progress" ? now : null,
      finished_at: isTerminal(after.status) ? now : null,
    },
    now,
  );
  const first_seq = row.event_seq - changes.length - (moved ? 1 : 0) - notes + 1;
  // Events of targets have the deployment's status before its closing event: it has not ended yet.
  const status = moved && isTerminal(after.status) ? deployment.status : after.status;
  const events = changes.map((change, i) => targetEvent(engine, { ...row, status }, first_seq + i, change, actor, now));
  if (moved) events.push(deploymentEvent(engine, row, row.event_seq, changes.at(-1)?.actor ?? actor, now));
  if (notes > 0) events.push(deploymentEvent(engine, row, row.event_seq, SYSTEM, now, { kind: "deployment.note", message: STOPPED }));
  await insertEvents(tx, org_id, id, events);
  announceEvents(tx, engine, row, events);
  if (step) tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
  if (moved) {
    await keepFleetDesired(tx, engine, row);
    followAgain(tx, engine, row);
  }
  if (after.halt === "stop" || after.halt === "rollback") await stopFollowing(tx, engine, row);
  await followUp(tx, engine, row, changes, actor);
  return row;
}

/**
 * Dispatches one target each of many deployments. The caller has locked their rows and the targets. Moves all of them, or throws if a row
 * has changed since it was read. Not for deployments by waves.
 */
export async function moveToDispatched(
  tx: Db,
  engine: Engine,
  moves: readonly { deployment: DeploymentRow; change: TargetChange }[],
  actor: Actor,
): Promise<void> {
  const org_id = moves[0]?.deployment.org_id;
  if (org_id === undefined) return;
  const now = engine.clock.now();
  const changes = moves.map(({ change }) => change);
  if ((await changeTargets(tx, org_id, null, changes, now)).length < moves.length)
    throw new Error("targets changed although they are locked");
  const begun = moves.map(({ deployment, change }) => {
    const dispatched = change.target.attempt === 0 ? 1 : 0;
    const { status, reason, halt } = settle(deployment, { ...NO_CHANGE, queued: -1, active: 1 }, dispatched);
    if (halt !== null || isTerminal(status)) throw new Error("a dispatch cannot end or halt a deployment");
    return { id: deployment.id, status, reason, dispatched, events: status === deployment.status ? 1 : 2 };
  });
  const rows = new Map((await beginDeployments(tx, org_id, begun, now)).map((row) => [row.id, row]));
  const events = moves.flatMap(({ deployment, change }) => {
    const row = rows.get(deployment.id);
    if (row === undefined) throw new Error("a deployment disappeared although it is locked");
    const moved = row.status !== deployment.status;
    const event = targetEvent(engine, row, row.event_seq - (moved ? 1 : 0), change, actor, now);
    const own = [event, ...(moved ? [deploymentEvent(engine, row, row.event_seq, actor, now)] : [])];
    announceEvents(tx, engine, row, own);
    return own.map((one) => ({ ...one, deployment_id: row.id }));
  });
  await insertEventsOfMany(tx, org_id, events);
  await recordTimelineMany(
    tx,
    engine,
    moves.map(({ deployment, change }) => timelineOf(deployment, change, actor)),
  );
}

/** A target enters these statuses from the queue only by its dispatch: the robot gets the release, already has it, or cannot have it. */
const HANDED_OUT: readonly TargetStatus[] = ["dispatched", "applied", "failed"];
const STOPPED = "too many robots failed: in-progress robots finish; remaining robots are not updated";

/** Returns how the counters of each wave change. */
function waveDeltas(changes: readonly TargetChange[]): WaveDelta[] {
  const deltas = new Map<number, WaveDelta>();
  for (const { target, to } of changes) {
    const delta = deltas.get(target.wave) ?? { wave: target.wave, ...NO_CHANGE };
    delta[counterOf(target.status)] -= 1;
    delta[counterOf(to)] += 1;
    deltas.set(target.wave, delta);
  }
  return [...deltas.values()];
}

/** Whether the rollout must be checked: it was halted, or the wave that was opened last may have passed or must pass again. */
function stepAfter(deployment: DeploymentRow, after: Settled, waves: readonly WaveRow[]): boolean {
  if (isTerminal(after.status)) return false;
  if (after.halt === "stop" || after.halt === "rollback") return true;
  if (deployment.stop_requested_at !== null || deployment.rollback_requested_at !== null) return true;
  const current = waves.find(({ wave }) => wave === deployment.current_wave);
  if (current === undefined || current.count_pending > 0) return false;
  return current.count_active === 0 || deployment.wave_passed_at !== null;
}

/** Builds the event of a target, with the status of the deployment's row. */
const targetEvent = (engine: Engine, row: DeploymentRow, seq: number, change: TargetChange, actor: Actor, at: Date): EventRow => ({
  id: engine.id("evt"),
  seq,
  at,
  kind: `target.${change.to}`,
  status: row.status,
  target_status: change.to,
  robot_id: change.target.robot_id,
  reason: change.reason,
  message: targetSentence(row, change),
  actor: change.actor ?? actor,
  data: { target_id: change.target.id, attempt: change.attempt ?? change.target.attempt, ...change.data },
});

const capitalized = (sentence: string): string => `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}`;

/** Builds the entry in the robot's timeline for a change of its target. */
const timelineOf = (deployment: DeploymentRow, change: TargetChange, actor: Actor) => ({
  org_id: deployment.org_id,
  robot_id: change.target.robot_id,
  kind: `${deployment.kind === "release" ? "deployment" : "config"}.${change.to}`,
  actor: change.to === "dispatched" ? deployment.created_by : (change.actor ?? actor),
  summary: capitalized(targetSentence(deployment, change)),
  data: { deployment_id: deployment.id, release_id: deployment.release_id, reason: change.reason },
});

/** Builds an event of the deployment, with the status of its row. */
export const deploymentEvent = (
  engine: Engine,
  row: DeploymentRow,
  seq: number,
  actor: Actor,
  at: Date,
  extra: { kind?: string; message?: string; data?: Record<string, unknown> } = {},
): EventRow => ({
  id: engine.id("evt"),
  seq,
  at,
  kind: extra.kind ?? `deployment.${row.status}`,
  status: row.status,
  target_status: null,
  robot_id: null,
  reason: row.reason,
  message: extra.message ?? deploymentSentence(row),
  actor,
  data: extra.data ?? {},
});

/** Changes the deployment's own status, with its event. */
export async function moveDeployment(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  to: DeploymentRow["status"],
  reason: Reason | null,
  actor: Actor,
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const row = await updateDeployment(
    tx,
    deployment.org_id,
    deployment.id,
    { status: to, reason, delta: NO_CHANGE, events: 1, started_at: null, finished_at: isTerminal(to) ? now : null },
    now,
  );
  const event = deploymentEvent(engine, row, row.event_seq, actor, now);
  await insertEvents(tx, row.org_id, row.id, [event]);
  announceEvents(tx, engine, row, [event]);
  await keepFleetDesired(tx, engine, row);
  return row;
}

/** Adds an event to the deployment that does not change its status. */
export async function noteDeployment(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  message: string,
  actor: Actor,
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const { org_id, id, status, reason } = deployment;
  const row = await updateDeployment(
    tx,
    org_id,
    id,
    { status, reason, delta: NO_CHANGE, events: 1, started_at: null, finished_at: null },
    now,
  );
  const event = deploymentEvent(engine, row, row.event_seq, actor, now, { kind: "deployment.note", message });
  await insertEvents(tx, org_id, id, [event]);
  announceEvents(tx, engine, row, [event]);
  return row;
}

/** Ends a deployment whose targets all ended while its fan-out was unfinished: no target will change any more. */
export async function endIfOver(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<DeploymentRow> {
  if (deployment.fan_out_done_at === null || !isOver(countsOf(deployment), deployment.status)) return deployment;
  const { status, reason } = settle(deployment, NO_CHANGE, 0);
  return status === deployment.status ? deployment : moveDeployment(tx, engine, deployment, status, reason, SYSTEM);
}

/** Wakes targets that waited for a slot: immediately or, if counting the groups takes long, within `COUNTED_EVERY_MS`. */
export async function freeSlots(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<void> {
  if (!usesPeriodicCount(deployment)) {
    if ((await wakeSlots(tx, deployment)) > 0) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
    return;
  }
  const soon = new Date(engine.clock.now().getTime() + COUNTED_EVERY_MS);
  if (deployment.step_at !== null && deployment.step_at <= soon) return;
  await setWaveProgress(tx, deployment.org_id, deployment.id, { step_at: soon });
  tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
}

/** Writes timelines and metrics, and wakes targets that waited for the changed ones. */
async function followUp(tx: Db, engine: Engine, deployment: DeploymentRow, changes: readonly TargetChange[], actor: Actor): Promise<void> {
  const shown = changes.filter(({ to }) => isTerminal(to) || to === "dispatched" || to === "rolling_back");
  await recordTimelineMany(
    tx,
    engine,
    shown.map((change) => timelineOf(deployment, change, actor)),
  );
  const freed = changes.some(({ target, to }) => isActive(target.status) && !isActive(to));
  if (freed && mayDispatch(deployment, engine.clock.now())) await freeSlots(tx, engine, deployment);
  const ended = changes.filter(({ to }) => isTerminal(to));
  for (const { to } of ended) engine.metrics.targets_ended.inc({ status: to });
  if (ended.length === 0) return;
  await wakeWaitingForPrevious(
    tx,
    deployment.org_id,
    ended.map(({ target }) => target.robot_id),
  );
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
}
