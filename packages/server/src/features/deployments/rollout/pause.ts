import { isTerminal } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import type { Db } from "../../../kernel/db.ts";
import { conflict } from "../../../kernel/fault.ts";
import { acceptedByResume, hasPassed, isGateOpen, type WaveFacts } from "./rules.ts";
import { wholeRollout } from "../policy.ts";
import { lockDeployment } from "../read.ts";
import { patchDeployment } from "../store/deployments.ts";
import type { DeploymentKind, DeploymentRow } from "../store/rows.ts";
import { type Engine, HINT_DISPATCH, HINT_ROLLOUT, moveDeployment, noteDeployment } from "../transition.ts";
import { countsOf } from "../state.ts";
import { advanceRollout, waveFacts } from "./advance.ts";

/** Locks a deployment and returns its row. Throws 404 if it does not exist, and 409 if it has ended, is ending or has not started. */
async function lockOpen(tx: Db, org_id: string, kind: DeploymentKind, id: string): Promise<DeploymentRow> {
  const row = await lockDeployment(tx, org_id, kind, id);
  if (isTerminal(row.status)) throw conflict(`deployment ${id} has ended: ${row.status}`);
  if (row.status === "scheduled")
    throw conflict(`deployment ${id} has not started; it is scheduled for ${row.scheduled_at?.toISOString() ?? ""}`);
  if (row.status === "cancelling") throw conflict(`deployment ${id} is being cancelled`);
  if (row.status === "rolling_back") throw conflict(`deployment ${id} is being rolled back`);
  return row;
}

/** Pauses a deployment: it is dispatched to no further robots, and robots that are updating finish. Does nothing if already paused. */
export async function pauseDeployment(
  db: Db,
  engine: Engine,
  org_id: string,
  id: string,
  actor: Actor,
  kind: DeploymentKind = "release",
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    const row = await lockOpen(tx, org_id, kind, id);
    if (row.status === "paused") return row;
    if (row.stop_requested_at !== null) throw conflict(`deployment ${id} has stopped: too many robots failed`);
    const paused = await patchDeployment(tx, row, { paused_at: engine.clock.now() });
    return moveDeployment(tx, engine, paused, "paused", null, actor);
  });
}

/**
 * Continues a paused deployment. If its failure threshold was exceeded, the next failure triggers `on_failure` of its policy again. If a gate
 * failed, what the gate found until now is accepted.
 */
export async function resumeDeployment(
  db: Db,
  engine: Engine,
  org_id: string,
  id: string,
  actor: Actor,
  kind: DeploymentKind = "release",
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    const row = await lockOpen(tx, org_id, kind, id);
    if (row.status !== "paused") throw conflict(`deployment ${id} is not paused: ${row.status}`);
    const tally = { ...countsOf(row), dispatched: row.count_dispatched };
    const failures_accepted = acceptedByResume(tally, wholeRollout(row.rollout), row.failures_accepted);
    const gate_accepted_at = row.reason === "gate_failed" ? engine.clock.now() : row.gate_accepted_at;
    const open = await patchDeployment(tx, row, { paused_at: null, failures_accepted, gate_accepted_at });
    const begun = row.started_at !== null;
    const resumed = await moveDeployment(tx, engine, open, begun ? "in_progress" : "queued", null, actor);
    tx.afterCommit(() => {
      engine.bus.publish(HINT_DISPATCH, null);
      engine.bus.publish(HINT_ROLLOUT, null);
    });
    return row.fan_out_done_at === null ? resumed : advanceRollout(tx, engine, resumed);
  });
}

/**
 * Starts the next wave without waiting for the rest of the soak time, even if its gate is closed. Throws 409 if the current wave has not
 * passed.
 */
export async function promoteDeployment(
  db: Db,
  engine: Engine,
  org_id: string,
  id: string,
  actor: Actor,
  kind: DeploymentKind = "release",
): Promise<DeploymentRow> {
  return db.transaction(async (tx) => {
    const row = await lockOpen(tx, org_id, kind, id);
    if (row.status === "paused") throw conflict(`deployment ${id} is paused; resume it first`);
    if (row.stop_requested_at !== null) throw conflict(`deployment ${id} has stopped: too many robots failed`);
    if (row.rollout.waves === undefined) throw conflict(`deployment ${id} has no waves`);
    if (row.fan_out_done_at === null) throw conflict(`deployment ${id} is still assigning robots to waves; try again in a moment`);
    const facts = await waveFacts(tx, row);
    const out_of = isGateOpen(facts) ? facts.wave : facts.wave - 1;
    if (out_of === facts.wave) requirePassed(row, facts);
    const promoted = await patchDeployment(tx, row, { promoted_wave: out_of });
    const noted = await noteDeployment(tx, engine, promoted, `promoted: wave ${out_of + 2} of ${row.wave_count} may start`, actor);
    tx.afterCommit(() => engine.bus.publish(HINT_ROLLOUT, null));
    return advanceRollout(tx, engine, noted);
  });
}

function requirePassed({ id }: DeploymentRow, facts: WaveFacts): void {
  const name = `wave ${facts.wave + 1} of ${facts.wave_count}`;
  if (facts.wave + 1 >= facts.wave_count) throw conflict(`deployment ${id} is in its last wave: ${name}`);
  if (hasPassed(facts)) return;
  const busy = facts.active + facts.pending + facts.blocked;
  const away = facts.queued - facts.blocked;
  throw conflict(
    busy > 0
      ? `${name} of deployment ${id} has not passed: ${busy} of its robots have not finished`
      : `${name} of deployment ${id} has not passed: none of its robots has reported, ${away} are offline`,
  );
}
