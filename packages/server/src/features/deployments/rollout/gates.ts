import type { Db } from "../../../kernel/db.ts";
import { announce } from "../../events/index.ts";
import { deploymentChange } from "../messages.ts";
import { verifySecondsOf } from "../policy.ts";
import { findEvaluatedAt, findJoinedIncident, setMetricChecks } from "../store/gates.ts";
import type { DeploymentRow, WaveRow } from "../store/rows.ts";
import { getWave } from "../store/waves.ts";
import type { Engine } from "../transition.ts";
import { checkIncidents, type GateCheck, metricChecksOf, mustMeasure, storedChecks } from "./gate-checks.ts";
import { measureGates } from "./measure.ts";

type GateWave = Pick<WaveRow, "wave" | "metric_checks" | "passed_at">;

/** Returns the checks of the gate after a wave, which was opened last. Those of metrics are as they were last measured. */
export async function readGateChecks(
  db: Db,
  deployment: DeploymentRow,
  { wave, metric_checks, passed_at }: GateWave,
): Promise<GateCheck[]> {
  const { org_id, rollout, gate_accepted_at } = deployment;
  const { gate_incidents, gate_metrics = [] } = rollout.waves?.[wave] ?? {};
  const is_measured = metric_checks !== null && passed_at !== null && new Date(metric_checks.measured_at) >= passed_at;
  const checks = metricChecksOf(gate_metrics, is_measured ? metric_checks : null, gate_accepted_at);
  if (gate_incidents === undefined) return checks;
  // Read before the incidents, so that an evaluation in between cannot be counted without its incidents.
  const evaluated_at = await findEvaluatedAt(db, org_id);
  // Robots do not verify config files.
  const verify_seconds = deployment.kind === "config" ? 0 : verifySecondsOf(rollout);
  const joined = await findJoinedIncident(db, deployment, gate_incidents, verify_seconds);
  return [checkIncidents(gate_incidents, joined, evaluated_at), ...checks];
}

/**
 * Measures the metrics of the gate after the wave that was opened last, if the wave soaks and the stored checks are old. The caller has locked
 * the deployment.
 */
export async function refreshMetricChecks(tx: Db, engine: Engine, deployment: DeploymentRow): Promise<void> {
  const { org_id, id, current_wave, wave_passed_at, wave_count, promoted_wave, paused_at } = deployment;
  const { gate_metrics, soak_seconds = 0 } = deployment.rollout.waves?.[current_wave] ?? {};
  if (gate_metrics === undefined || wave_passed_at === null || paused_at !== null) return;
  if (current_wave + 1 >= wave_count || promoted_wave >= current_wave) return;
  const now = engine.clock.now();
  const soaks_until = new Date(wave_passed_at.getTime() + soak_seconds * 1_000);
  const { metric_checks = null, opened_at = null } = (await getWave(tx, org_id, id, current_wave)) ?? {};
  if (opened_at === null || !mustMeasure(metric_checks, wave_passed_at, soaks_until, now)) return;
  const wave = { org_id, deployment_id: id, wave: current_wave, opened_at, passed_at: wave_passed_at, soaks_until };
  const checks = storedChecks(await measureGates(tx, wave, gate_metrics, now), metric_checks, now);
  await setMetricChecks(tx, org_id, id, current_wave, checks);
  announce(tx, engine, org_id, deploymentChange(deployment, "waves"));
}
