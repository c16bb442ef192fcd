/** What decides about the wave that was opened last. */
export interface WaveFacts {
  /** Its number, counted from 0, and how many there are. */
  wave: number;
  wave_count: number;
  /** Its targets that are not opened yet, that robots work on, and that ended `applied`, `failed` or `rolled_back`. */
  pending: number;
  active: number;
  decided: number;
  /** Its queued targets; of them those that wait for something else than their robot, and those that wait for the gate. */
  queued: number;
  blocked: number;
  gated: number;
  /** When it had passed; null: not yet, or it has to pass again. */
  passed_at: Date | null;
  /** How long its robots run the release before the next wave, and whether that one waits for somebody. */
  soak_seconds: number;
  gate: "auto" | "manual";
  /** Of the wave before it; `auto` for the first. */
  gate_before: "auto" | "manual";
  /** The last wave out of which somebody asked for the step; -1: none. */
  promoted_wave: number;
  /** Paused: what has passed is noted, and nothing is opened. */
  paused: boolean;
}

export type NextStep =
  /** More of its targets are to be queued; behind the gate when that is closed. */
  | { do: "open"; gated: boolean }
  /** The gate before it is open: those that wait for it may go. */
  | { do: "lift_gate" }
  /** It has passed, now. */
  | { do: "pass" }
  /** It had passed, and one of its robots is at work again. */
  | { do: "pass_again" }
  | { do: "soak"; until: Date }
  /** On to the next wave, whose gate may be closed. */
  | { do: "next"; gated: boolean }
  /** Something else has to happen first: a robot, a person, the end. */
  | { do: "wait" };

/** Whether nothing of the wave is under way and something is known of it: robots that are away neither pass nor fail it. Pure. */
export const hasPassed = ({ pending, active, queued, blocked, decided }: WaveFacts): boolean =>
  pending === 0 && active === 0 && blocked === 0 && (decided > 0 || queued === 0);

/** Whether the targets of the wave may go, as far as a gate before it is concerned. Pure. */
export const isGateOpen = ({ wave, gate_before, promoted_wave }: Pick<WaveFacts, "wave" | "gate_before" | "promoted_wave">): boolean =>
  gate_before === "auto" || promoted_wave >= wave - 1;

/** What a rollout by waves does next. Pure: same facts, same step. */
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
