import { isTerminal, type Reason, type TargetStatus } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Plane } from "../../context.ts";
import { SYSTEM } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { recordTimelineMany } from "../timeline/index.ts";
import { deploymentSentence, publishEvents, targetSentence } from "./messages.ts";
import { followAgain, keepFleetDesired, stopFollowing } from "./follow/fleet-desired.ts";
import {
  counterOf,
  countReasons,
  type Counts,
  countsOf,
  type Finalized,
  finalizeDeployment,
  isActive,
  isOver,
  mayDispatch,
} from "./state.ts";
import { PERIODIC_COUNT_MS, usesPeriodicCount, wakeSlots } from "./dispatch/slots.ts";
import { insertEvents, type NewEvent } from "./store/events.ts";
import { type DeploymentUpdate, patchDeployment, updateDeployments } from "./store/deployments.ts";
import type { DeploymentRow, ReasonCounts, TargetRow, WaveRow } from "./store/rows.ts";
import { moveWaveCounters, type WaveDelta } from "./store/waves.ts";
import { afterChange, changeTargets, insertStarted, type TargetChange, wakeWaitingForPrevious } from "./store/targets.ts";

/** The parts of the plane that the engine needs to advance a deployment. */
export type Engine = Pick<Plane, "clock" | "id" | "log" | "metrics" | "bus" | "secrets">;

/** The parts of the plane that are needed to create a deployment: those of the engine, and the limits in the settings. */
export type CreateContext = Engine & Pick<Plane, "settings">;

export const HINT_DISPATCH = "rf.deployments.dispatch";
export const HINT_PUSH = "rf.deployments.push";
export const HINT_SCHEDULED = "rf.deployments.scheduled";
/** Hint: a rollout or fan-out can advance, or targets of a deployment must be ended. */
export const HINT_ROLLOUT = "rf.deployments.rollout";

const NO_CHANGE: Counts = { total: 0, pending: 0, queued: 0, active: 0, applied: 0, failed: 0, rolled_back: 0, cancelled: 0 };

/** Changes of targets of one deployment, whose row the caller has locked. */
export interface Move {
  deployment: DeploymentRow;
  changes: readonly TargetChange[];
  /**
   * The target of a scheduled deployment to one robot that starts now. The target is not stored yet; `deployment` has the values with which
   * it starts.
   */
  started?: TargetRow | undefined;
}

/** Moves targets of one deployment, whose row the caller has locked. Returns its row. */
export async function moveTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  changes: readonly TargetChange[],
  actor: Actor,
): Promise<DeploymentRow> {
  const [row = deployment] = await moveAll(tx, engine, [{ deployment, changes }], actor);
  return row;
}

/**
 * Moves targets of deployments of one org, and the deployments with them: writes states, counters, events and timelines in the caller's
 * transaction. Uses the same few statements for one deployment or a hundred. No other function changes the status of a target. Returns the
 * rows of the deployments that changed.
 */
export async function moveAll(tx: Db, engine: Engine, wanted: readonly Move[], actor: Actor): Promise<DeploymentRow[]> {
  const org_id = wanted[0]?.deployment.org_id;
  if (org_id === undefined) return [];
  const now = engine.clock.now();
  const stored = wanted.flatMap((move) => (move.started === undefined ? move.changes : []));
  const changed = new Map(
    stored.length === 0 ? [] : (await changeTargets(tx, org_id, stored, now)).map(({ id, release_tag }) => [id, release_tag]),
  );
  const moves: PreparedMove[] = [];
  for (const { deployment, changes, started } of wanted) {
    const own = started === undefined ? changes.flatMap((change) => changedOnly(changed, change)) : changes;
    if (own.length < changes.length)
      engine.log.warn(
        { deployment_id: deployment.id, lost: changes.length - own.length },
        "other transactions changed targets before they could be updated",
      );
    if (own.length > 0 || started !== undefined) moves.push(await prepareMove(tx, { deployment, changes: own, started }));
  }
  if (moves.length === 0) return [];
  const updates = moves.map((move) => updateOf(move, now));
  const new_targets = moves.flatMap(startedTarget);
  const [updated] = await Promise.all([
    updateDeployments(tx, org_id, updates, now),
    new_targets.length === 0 ? 0 : insertStarted(tx, org_id, new_targets),
  ]);
  const rows = new Map(updated.map((row) => [row.id, row]));
  const moved = moves.map((move) => ({ ...move, row: { ...move.deployment, ...rows.get(move.deployment.id) } }));
  const events = moved.map((move) => eventsOf(engine, move, actor, now));
  await insertEvents(tx, org_id, events.flat());
  for (const [i, { row }] of moved.entries()) publishEvents(tx, engine, row, events[i] ?? []);
  if (moves.some(({ step }) => step)) tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
  for (const { row, deployment, after } of moved) {
    if (row.status !== deployment.status) {
      await keepFleetDesired(tx, engine, row);
      followAgain(tx, engine, row);
    }
    if (after.halt === "stop" || after.halt === "rollback") await stopFollowing(tx, engine, row);
  }
  await followUp(tx, engine, moved, actor);
  return moved.map(({ row }) => row);
}

/** Returns the change with the tag of its target's release, or nothing if its target was not changed. */
function changedOnly(changed: ReadonlyMap<string, string | null>, change: TargetChange): TargetChange[] {
  const release_tag = changed.get(change.target.id);
  return release_tag === undefined ? [] : [{ ...change, release_tag: release_tag ?? undefined }];
}

/** Returns the target of a deployment that starts, as its changes leave it. */
const startedTarget = ({ started, changes }: Move): TargetRow[] =>
  started === undefined ? [] : [changes.reduce<TargetRow>((target, change) => ({ ...target, ...afterChange(change) }), started)];

/** A move with its effect on the deployment. */
interface PreparedMove extends Move {
  delta: Counts;
  reason_counts: ReasonCounts;
  /** Targets that were dispatched for the first time. */
  dispatched: number;
  after: Finalized;
  /** Whether the rollout must be checked. */
  step: boolean;
}

async function prepareMove(tx: Db, { deployment, changes, started }: Move): Promise<PreparedMove> {
  const { org_id, id, rollout } = deployment;
  const delta = deltaOf(changes);
  const reason_counts = countReasons(deployment.reason_counts, changes);
  const waves = rollout.waves === undefined ? [] : await moveWaveCounters(tx, org_id, id, waveDeltas(changes));
  const dispatched = changes.filter(({ target, to }) => target.attempt === 0 && HANDED_OUT.includes(to)).length;
  const after = finalizeDeployment({ ...deployment, reason_counts }, delta, dispatched);
  return { deployment, changes, started, delta, reason_counts, dispatched, after, step: stepAfter(deployment, after, waves) };
}

/** A stop is recorded as an event even if the status does not change. */
const isNoted = ({ deployment, after }: PreparedMove): boolean => after.halt === "stop" && after.status === deployment.status;

const updateOf = (move: PreparedMove, now: Date): DeploymentUpdate => {
  const { deployment, changes, started, reason_counts, dispatched, after, step } = move;
  const { order_number, expires_at, fan_out_at } = deployment;
  const delta = started === undefined ? move.delta : { ...move.delta, total: 1, queued: move.delta.queued + 1 };
  return {
    id: deployment.id,
    ...after,
    delta,
    ...(started === undefined ? {} : { order_number, expires_at, fan_out_at }),
    reason_counts,
    dispatched,
    step_at: step ? now : null,
    events: (started === undefined ? 0 : 1) + changes.length + (after.status !== deployment.status || isNoted(move) ? 1 : 0),
    started_at: after.status === "in_progress" ? now : null,
    finished_at: isTerminal(after.status) ? now : null,
  };
};

/** Builds the events of a move. `row` is the deployment's row after the move. */
function eventsOf(engine: Engine, move: PreparedMove & { row: DeploymentRow }, actor: Actor, now: Date): NewEvent[] {
  const { deployment, row, changes, started } = move;
  const moved = row.status !== deployment.status;
  // If this move ends the deployment, the events of its targets still have the deployment's earlier status, because they precede the event
  // of its end.
  const status = moved && isTerminal(row.status) ? deployment.status : row.status;
  const first_seq = row.event_seq - updateOf(move, now).events + 1;
  const events = started === undefined ? [] : [deploymentEvent(engine, deployment, first_seq, actor, now)];
  for (const change of changes) events.push(targetEvent(engine, { ...row, status }, first_seq + events.length, change, actor, now));
  if (moved) events.push(deploymentEvent(engine, row, row.event_seq, changes.at(-1)?.actor ?? actor, now));
  if (isNoted(move)) events.push(deploymentEvent(engine, row, row.event_seq, SYSTEM, now, { kind: "deployment.note", message: STOPPED }));
  return events;
}

/** The statuses that a queued target reaches only by its dispatch: the robot gets the release, already has it, or cannot have it. */
const HANDED_OUT: readonly TargetStatus[] = ["dispatched", "applied", "failed"];
const STOPPED = "too many robots failed: in-progress robots finish; remaining robots are not updated";

function deltaOf(changes: readonly TargetChange[]): Counts {
  const delta = { ...NO_CHANGE };
  for (const { target, to } of changes) {
    delta[counterOf(target.status)] -= 1;
    delta[counterOf(to)] += 1;
  }
  return delta;
}

/** Returns how the counters of each wave change. */
const waveDeltas = (changes: readonly TargetChange[]): WaveDelta[] =>
  Array.from(
    Map.groupBy(changes, ({ target }) => target.wave),
    ([wave, own]) => ({ wave, ...deltaOf(own) }),
  );

/** Whether the rollout must be checked: it was halted, or the wave that was opened last may have passed or must pass again. */
function stepAfter(deployment: DeploymentRow, after: Finalized, waves: readonly WaveRow[]): boolean {
  if (isTerminal(after.status)) return false;
  if (after.halt === "stop" || after.halt === "rollback") return true;
  if (deployment.stop_requested_at !== null || deployment.rollback_requested_at !== null) return true;
  const current = waves.find(({ wave }) => wave === deployment.current_wave);
  if (current === undefined || current.count_pending > 0) return false;
  return current.count_active === 0 || deployment.wave_passed_at !== null;
}

/** Builds the event of a target, with the status of the deployment's row. */
const targetEvent = (engine: Engine, row: DeploymentRow, seq: number, change: TargetChange, actor: Actor, at: Date): NewEvent => ({
  deployment_id: row.id,
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
): NewEvent => ({
  deployment_id: row.id,
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

/** Sets a deployment's status and writes the event of this change, by default with a message from the status and the reason. */
export async function moveDeployment(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  status: DeploymentRow["status"],
  reason: Reason | null,
  actor: Actor,
  extra?: { message: string; data: Record<string, unknown> },
): Promise<DeploymentRow> {
  const row = await writeEvent(tx, engine, { ...deployment, status, reason }, actor, extra);
  await keepFleetDesired(tx, engine, row);
  return row;
}

/** Adds an event to the deployment that does not change its status. */
export const noteDeployment = (tx: Db, engine: Engine, deployment: DeploymentRow, message: string, actor: Actor): Promise<DeploymentRow> =>
  writeEvent(tx, engine, deployment, actor, { kind: "deployment.note", message });

/** Writes the deployment's status and reason, with an event. */
async function writeEvent(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  actor: Actor,
  extra?: Parameters<typeof deploymentEvent>[5],
): Promise<DeploymentRow> {
  const now = engine.clock.now();
  const { org_id, id, status, reason } = deployment;
  const finished_at = isTerminal(status) ? now : null;
  const update = { id, status, reason, delta: NO_CHANGE, events: 1, started_at: null, finished_at };
  const [updated] = await updateDeployments(tx, org_id, [update], now);
  if (updated === undefined) throw new Error("a locked deployment does not exist");
  const row = { ...deployment, ...updated };
  const event = deploymentEvent(engine, row, row.event_seq, actor, now, extra);
  await insertEvents(tx, org_id, [event]);
  publishEvents(tx, engine, row, [event]);
  return row;
}

/** Ends a deployment whose targets had all ended before its fan-out finished, because no later change of a target would end it. */
export async function endIfOver(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<DeploymentRow> {
  if (deployment.fan_out_done_at === null || !isOver(countsOf(deployment), deployment.status)) return deployment;
  const { status, reason } = finalizeDeployment(deployment, NO_CHANGE, 0);
  return status === deployment.status ? deployment : moveDeployment(tx, engine, deployment, status, reason, SYSTEM);
}

/** Wakes targets that waited for a slot: immediately or, if counting the groups takes long, within `PERIODIC_COUNT_MS`. */
export async function freeSlots(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<void> {
  if (!usesPeriodicCount(deployment)) {
    if ((await wakeSlots(tx, deployment)) > 0) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
    return;
  }
  const soon = new Date(engine.clock.now().getTime() + PERIODIC_COUNT_MS);
  if (deployment.step_at !== null && deployment.step_at <= soon) return;
  await patchDeployment(tx, deployment, { step_at: soon });
  tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
}

/** Writes timelines and metrics, and wakes targets that waited for the changed targets. */
async function followUp(tx: Db, engine: Engine, moves: readonly (Move & { row: DeploymentRow })[], actor: Actor): Promise<void> {
  const shown = moves.flatMap(({ row, changes }) => changes.filter(isShown).map((change) => timelineOf(row, change, actor)));
  await recordTimelineMany(tx, engine, shown, { at_commit: true });
  for (const { row, changes } of moves)
    if (mayDispatch(row, engine.clock.now()) && changes.some(({ target, to }) => isActive(target.status) && !isActive(to)))
      await freeSlots(tx, engine, row);
  const ended = moves.flatMap(({ changes }) => changes.filter(({ to }) => isTerminal(to)));
  for (const { to } of ended) engine.metrics.targets_ended.inc({ status: to });
  const [first] = ended;
  if (first === undefined) return;
  const robot_ids = ended.map(({ target }) => target.robot_id);
  await wakeWaitingForPrevious(tx, first.target.org_id, robot_ids);
  tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
}

/** Whether the change is an entry in the robot's timeline. */
const isShown = ({ to }: TargetChange): boolean => isTerminal(to) || to === "dispatched" || to === "rolling_back";
