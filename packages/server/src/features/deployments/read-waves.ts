import type { AnswerOf, DeploymentWave, QueryOf, Routes } from "@roamfleet/protocol/routes";
import type { Caller } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { readPage } from "../../kernel/page.ts";
import { wireTime } from "../../kernel/time.ts";
import { requireDeployment } from "./read.ts";
import { isGateOpen } from "./rollout/next-step.ts";
import { wholeRollout } from "./rollout/whole-rollout.ts";
import type { DeploymentRow, WaveRow } from "./store/rows.ts";
import { countOffline, listWaves } from "./store/waves.ts";
import { countsOf } from "./wire.ts";

/** Returns the waves of a deployment in order. One without waves has a single wave with all robots. */
export async function listDeploymentWaves(
  db: Db,
  caller: Caller,
  id: string,
  query: QueryOf<Routes["listDeploymentWaves"]>,
): Promise<AnswerOf<Routes["listDeploymentWaves"]>> {
  const { org_id } = caller;
  const deployment = await requireDeployment(db, org_id, "release", id);
  const rows = deployment.rollout.waves === undefined ? [asSingleWave(deployment)] : await listWaves(db, org_id, id);
  const offline = deployment.count_queued === 0 ? [] : await countOffline(db, org_id, id);
  return readPage(
    query,
    ["listDeploymentWaves", org_id, id],
    async ({ after, limit }) => rows.filter(({ wave }) => after === null || wave > Number(after)).slice(0, limit),
    (row) => waveToWire(deployment, row, offline.find(({ wave }) => wave === row.wave)?.count ?? 0),
    ({ wave }) => String(wave),
  );
}

function asSingleWave(deployment: DeploymentRow): WaveRow {
  return { ...deployment, wave: 0, size: deployment.count_total, opened_at: deployment.fan_out_done_at, passed_at: deployment.finished_at };
}

function waveToWire(deployment: DeploymentRow, row: WaveRow, offline: number): DeploymentWave {
  const policy = wholeRollout(deployment.rollout).waves?.[row.wave];
  const { soak_seconds, gate } = policy ?? { soak_seconds: 0, gate: "auto" as const };
  const status = statusOf(deployment, row);
  // The last wave passes when its deployment ends, without a next step.
  const passed_at = row.passed_at ?? (status === "passed" ? deployment.finished_at : null);
  const soaks_until = row.passed_at === null ? null : new Date(row.passed_at.getTime() + soak_seconds * 1_000);
  return {
    wave: row.wave,
    percent: policy?.percent ?? null,
    count: policy?.count ?? null,
    labels: policy?.labels ?? null,
    soak_seconds,
    gate,
    status,
    ...countsOf({ ...row, count_total: row.size }),
    offline,
    opened_at: wireTime(row.opened_at),
    passed_at: wireTime(passed_at),
    soaks_until: wireTime(soaks_until),
  };
}

function statusOf(deployment: DeploymentRow, { wave, opened_at, passed_at }: WaveRow): DeploymentWave["status"] {
  const { current_wave, promoted_wave, wave_count } = deployment;
  if (opened_at === null) return "pending";
  if (wave < current_wave) return "passed";
  const gate_before = wholeRollout(deployment.rollout).waves?.[wave - 1]?.gate ?? "auto";
  if (!isGateOpen({ wave, gate_before, promoted_wave })) return "gate";
  if (passed_at === null) return deployment.finished_at === null ? "open" : "passed";
  return wave + 1 >= wave_count ? "passed" : "soaking";
}
