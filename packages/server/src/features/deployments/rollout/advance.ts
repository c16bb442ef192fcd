import { SYSTEM } from "../../../kernel/caller.ts";
import type { Db } from "../../../kernel/db.ts";
import { announce } from "../../events/index.ts";
import { type NextStep, nextStep, reachOf, type Wave, type WaveFacts, waveFactsOf } from "./rules.ts";
import { wholeRollout } from "../policy.ts";
import { isLimited, wakeSlots } from "../dispatch/slots.ts";
import { patchDeployment } from "../store/deployments.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { assignToWave, countAssigned, countQueued, getWave, insertWaves, lockPending, releaseHeld, setWaveTimes } from "../store/waves.ts";
import { deploymentChange, REASON_TEXTS } from "../messages.ts";
import { type Engine, HINT_DISPATCH, moveDeployment, moveTargets } from "../transition.ts";
import { readGateChecks, refreshMetricChecks } from "./gates.ts";

/** Maximum targets per transaction. */
const CHUNK_TARGETS = 2_000;
const ASSIGN_TARGETS = 5_000;
/** A rollout is checked this often even without a hint: a robot's connection or health may free a slot. */
const LOOK_EVERY_MS = 30_000;

const wavesOf = ({ rollout }: Pick<DeploymentRow, "rollout">): readonly Wave[] => wholeRollout(rollout).waves ?? [];

/**
 * Assigns the next chunk of robots to their waves. When all robots are assigned, opens the first wave; until then, no target of the
 * deployment is dispatched. After a crash, resumes from the state in the rows.
 */
export async function assignRobots(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<DeploymentRow> {
  const { org_id, id, count_total } = deployment;
  const waves = wavesOf(deployment);
  let left = ASSIGN_TARGETS;
  let number = deployment.wave_to_assign ?? 0;
  for (; number < waves.length; number += 1) {
    const wave = waves[number] as Wave;
    const reach = reachOf(wave, count_total);
    const wanted = reach === null ? Infinity : reach - (await countAssigned(tx, org_id, id, waves.length)).count;
    const limit = Math.min(left, wanted);
    const found = limit <= 0 ? 0 : await assignToWave(tx, org_id, id, { wave: number, rest: waves.length, labels: wave.labels, limit });
    left -= found;
    if (left === 0 && found < wanted)
      return patchDeployment(tx, deployment, { wave_to_assign: number, fan_out_done_at: null, step_at: null });
  }
  const wave_count = await insertWaves(tx, org_id, id, waves.length);
  const now = engine.clock.now();
  const row = await patchDeployment(tx, deployment, { wave_to_assign: null, wave_count, fan_out_done_at: now, step_at: now });
  await setWaveTimes(tx, org_id, id, 0, { opened_at: now });
  return advanceRollout(tx, engine, row);
}

/** Advances a deployment as far as possible now, and sets when it is checked again. The caller has locked the row of the deployment. */
export async function advanceRollout(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<DeploymentRow> {
  const now = engine.clock.now();
  // The targets of a stopped deployment are ended in the background, by endPendingTargets.
  if (deployment.stop_requested_at !== null) return deployment;
  if (deployment.cancel_requested_at !== null || deployment.rollback_requested_at !== null || deployment.fan_out_done_at === null)
    return patchDeployment(tx, deployment, { step_at: null });
  let row = deployment;
  let step_at: Date | null = null;
  if (deployment.rollout.waves !== undefined) ({ row, step_at } = await advanceWaves(tx, engine, deployment));
  if (row.paused_at === null && (await wakeSlots(tx, row)) > 0) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  const look_at = new Date(now.getTime() + LOOK_EVERY_MS);
  return patchDeployment(tx, deployment, { step_at: step_at === null || step_at > look_at ? look_at : step_at });
}

/** Takes steps until the next one must wait or a chunk is full. */
async function advanceWaves(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<{ row: DeploymentRow; step_at: Date | null }> {
  let row = deployment;
  for (;;) {
    await refreshMetricChecks(tx, engine, row);
    const facts = await waveFacts(tx, row);
    const step = nextStep(facts, engine.clock.now());
    if (step.do === "wait") return { row, step_at: null };
    if (step.do === "soak" || step.do === "await_data") return { row, step_at: step.until };
    const done = await takeStep(tx, engine, row, facts, step);
    row = done.row;
    if (done.chunk_full) return { row, step_at: engine.clock.now() };
  }
}

/** Reads the facts about the wave that was opened last. */
export async function waveFacts(tx: Db, deployment: DeploymentRow): Promise<WaveFacts> {
  const { org_id, id, current_wave } = deployment;
  const wave = await getWave(tx, org_id, id, current_wave);
  if (wave === undefined) throw new Error("the current wave of a deployment does not exist");
  const { blocked, gated } = wave.count_queued === 0 ? { blocked: 0, gated: 0 } : await countQueued(tx, org_id, id, current_wave);
  const counts = {
    pending: wave.count_pending,
    active: wave.count_active,
    queued: wave.count_queued,
    applied: wave.count_applied,
    failed: wave.count_failed,
    rolled_back: wave.count_rolled_back,
  };
  return waveFactsOf(deployment, counts, { blocked, gated }, await readGateChecks(tx, deployment, wave));
}

type Taken = Exclude<NextStep, { do: "wait" } | { do: "soak" } | { do: "await_data" }>;

async function takeStep(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  facts: WaveFacts,
  step: Taken,
): Promise<{ row: DeploymentRow; chunk_full: boolean }> {
  const { org_id, id, current_wave } = deployment;
  const now = engine.clock.now();
  const whole = (row: DeploymentRow) => ({ row, chunk_full: false });
  // Each opened target publishes its own event, so `open` does not publish a change of the waves.
  if (step.do !== "open") announce(tx, engine, org_id, deploymentChange(deployment, "waves"));
  switch (step.do) {
    case "open":
      return openTargets(tx, engine, deployment, step.gated);
    case "lift_gate": {
      const lifted = await releaseHeld(tx, deployment, "gate", isLimited(deployment) ? "slot" : null, ASSIGN_TARGETS);
      tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
      return { row: deployment, chunk_full: lifted > 0 };
    }
    case "fail_gate": {
      const paused = await patchDeployment(tx, deployment, { paused_at: now });
      const message = `paused: ${REASON_TEXTS.gate_failed.replace("a wave", `wave ${facts.wave + 1}`)}: ${step.message}`;
      return whole(
        await moveDeployment(tx, engine, paused, "paused", "gate_failed", SYSTEM, {
          message,
          data: { incident_id: step.check.incident_id },
        }),
      );
    }
    case "pass":
    case "pass_again": {
      const passed_at = step.do === "pass" ? now : null;
      await setWaveTimes(tx, org_id, id, current_wave, { passed_at });
      return whole(await patchDeployment(tx, deployment, { wave_passed_at: passed_at }));
    }
    case "next": {
      await setWaveTimes(tx, org_id, id, facts.wave + 1, { opened_at: now });
      return whole(await patchDeployment(tx, deployment, { current_wave: facts.wave + 1, wave_passed_at: null }));
    }
  }
}

/** Queues the next chunk of targets of the current wave. */
async function openTargets(
  tx: Db,
  engine: Engine,
  deployment: DeploymentRow,
  gated: boolean,
): Promise<{ row: DeploymentRow; chunk_full: boolean }> {
  const waiting_for = gated ? "gate" : isLimited(deployment) ? "slot" : null;
  const pending = await lockPending(tx, deployment.org_id, deployment.id, deployment.current_wave, CHUNK_TARGETS);
  const row = await moveTargets(
    tx,
    engine,
    deployment,
    pending.map((target) => ({ target, to: "queued", reason: null, waiting_for })),
    SYSTEM,
  );
  if (!gated) tx.afterCommit(() => engine.bus.publish(HINT_DISPATCH, null));
  return { row, chunk_full: pending.length === CHUNK_TARGETS };
}
