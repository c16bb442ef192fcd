import type { Db } from "../../../kernel/db.ts";
import { verifySecondsOf } from "../policy.ts";
import { findEvaluatedAt, findJoinedIncident } from "../store/gates.ts";
import type { DeploymentRow } from "../store/rows.ts";
import { checkIncidents, type GateCheck } from "./gate-checks.ts";

/** Reads the checks of the gate after the wave that was opened last. */
export async function readGateChecks(db: Db, deployment: DeploymentRow): Promise<GateCheck[]> {
  const { org_id, rollout, current_wave } = deployment;
  const { gate_incidents } = rollout.waves?.[current_wave] ?? {};
  if (gate_incidents === undefined) return [];
  // Read before the incidents, so that an evaluation in between cannot be counted without its incidents.
  const evaluated_at = await findEvaluatedAt(db, org_id);
  const joined = await findJoinedIncident(db, deployment, gate_incidents, verifySecondsOf(rollout));
  return [checkIncidents(gate_incidents, joined, evaluated_at)];
}
