import type { Rollout } from "@roamfleet/protocol/routes";
import type { Counts } from "../state.ts";
import type { WaveFacts } from "./next-step.ts";
import { wholeRollout } from "./whole-rollout.ts";

/** Collects the facts about the wave that was opened last: its counters, and what its queued targets wait for. Pure. */
export function waveFactsOf(
  deployment: {
    rollout: Rollout;
    current_wave: number;
    wave_count: number;
    wave_passed_at: Date | null;
    promoted_wave: number;
    paused_at: Date | null;
  },
  counts: Pick<Counts, "pending" | "active" | "queued" | "applied" | "failed" | "rolled_back">,
  held: Pick<WaveFacts, "blocked" | "gated">,
): WaveFacts {
  const { current_wave } = deployment;
  const waves = wholeRollout(deployment.rollout).waves ?? [];
  const decided = counts.applied + counts.failed + counts.rolled_back;
  return {
    wave: current_wave,
    wave_count: deployment.wave_count,
    pending: counts.pending,
    active: counts.active,
    decided,
    queued: counts.queued,
    ...held,
    passed_at: deployment.wave_passed_at,
    // No robot runs the release yet, so there is nothing to observe.
    soak_seconds: decided === 0 ? 0 : (waves[current_wave]?.soak_seconds ?? 0),
    gate: waves[current_wave]?.gate ?? "auto",
    gate_before: waves[current_wave - 1]?.gate ?? "auto",
    promoted_wave: deployment.promoted_wave,
    paused: deployment.paused_at !== null,
  };
}
