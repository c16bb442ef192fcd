/** Facts about the wave that was opened last. */
export interface WaveFacts {
  /** Its number, counted from 0, and the number of waves. */
  wave: number;
  wave_count: number;
  /** Its targets that are not opened, that are active, and that ended `applied`, `failed` or `rolled_back`. */
  pending: number;
  active: number;
  decided: number;
  /** Its queued targets; of those, the ones that wait for anything except their robot, and the ones that wait for the gate. */
  queued: number;
  blocked: number;
  gated: number;
  /** When it passed; null: it has not passed, or must pass again. */
  passed_at: Date | null;
  /** How long its robots run the release before the next wave, and whether that needs a manual promotion. */
  soak_seconds: number;
  gate: "auto" | "manual";
  /** The gate of the wave before it; `auto` for the first wave. */
  gate_before: "auto" | "manual";
  /** The last wave after which a user promoted the deployment; -1: none. */
  promoted_wave: number;
  /** Paused: a passed wave is recorded, but nothing is opened. */
  paused: boolean;
}

export type NextStep =
  /** Queue more of its targets; behind the gate if that is closed. */
  | { do: "open"; gated: boolean }
  /** The gate before it is open: release the targets that wait for it. */
  | { do: "lift_gate" }
  /** It has just passed. */
  | { do: "pass" }
  /** It had passed, and one of its robots is active again. */
  | { do: "pass_again" }
  | { do: "soak"; until: Date }
  /** Continue with the next wave, whose gate may be closed. */
  | { do: "next"; gated: boolean }
  /** Something else must happen first: a robot reports, a user acts, or the deployment ends. */
  | { do: "wait" };

/** Whether no target of the wave is active and at least one has ended: offline robots neither pass nor fail it. Pure. */
export const hasPassed = ({ pending, active, queued, blocked, decided }: WaveFacts): boolean =>
  pending === 0 && active === 0 && blocked === 0 && (decided > 0 || queued === 0);

/** Whether the gate before the wave is open. Pure. */
export const isGateOpen = ({ wave, gate_before, promoted_wave }: Pick<WaveFacts, "wave" | "gate_before" | "promoted_wave">): boolean =>
  gate_before === "auto" || promoted_wave >= wave - 1;

/** Returns the next step of a rollout by waves. Pure: the same facts give the same step. */
export function nextStep(facts: WaveFacts, now: Date): NextStep {
  const { wave, wave_count, passed_at, soak_seconds, gate, promoted_wave, paused } = facts;
  if (facts.pending > 0) return paused ? { do: "wait" } : { do: "open", gated: !isGateOpen(facts) };
  if (facts.gated > 0 && isGateOpen(facts)) return paused ? { do: "wait" } : { do: "lift_gate" };
  if (!hasPassed(facts)) return passed_at === null ? { do: "wait" } : { do: "pass_again" };
  if (passed_at === null) return { do: "pass" };
  if (wave + 1 >= wave_count || paused) return { do: "wait" };
  if (promoted_wave >= wave) return { do: "next", gated: false };
  const until = new Date(passed_at.getTime() + soak_seconds * 1_000);
  return now < until ? { do: "soak", until } : { do: "next", gated: gate === "manual" };
}
