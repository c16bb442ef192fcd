import { type Draft, EMPTY_DRAFT } from "./draft.ts";

export interface Preset {
  label: string;
  /** What the preset does, in one or two sentences. */
  hint: string;
  draft: Partial<Draft>;
}

export const PRESETS: readonly Preset[] = [
  { label: "All at once", hint: "No waves: every robot starts immediately. Fastest, but it does not stop when robots fail.", draft: {} },
  {
    label: "Canary, then all",
    hint: "5% of the robots first. After 30 healthy minutes, all others. Pauses if more than 5% fail.",
    draft: {
      waves: [{ key: 1, by: "percent", amount: "5", soak: "30m", gate: false, incidents: "", metrics: "" }],
      threshold_by: "percent",
      threshold: "5",
      on_failure: "pause",
    },
  },
  {
    label: "Careful waves",
    hint: "One robot, 10%, 50%, then the rest, each after manual promotion. Rolls back all robots at the first failure.",
    draft: {
      waves: [
        { key: 1, by: "count", amount: "1", soak: "10m", gate: true, incidents: "", metrics: "" },
        { key: 2, by: "percent", amount: "10", soak: "30m", gate: true, incidents: "", metrics: "" },
        { key: 3, by: "percent", amount: "50", soak: "1h", gate: true, incidents: "", metrics: "" },
      ],
      threshold_by: "count",
      threshold: "0",
      on_failure: "rollback",
      unavailable_by: "percent",
      unavailable: "10",
      group_by: "site",
    },
  },
];

/** The presets of config deployments, which cannot roll back. */
export const CONFIG_PRESETS: readonly Preset[] = PRESETS.map((preset) =>
  preset.draft.on_failure === "rollback"
    ? {
        label: preset.label,
        hint: "One robot, 10%, 50%, then the rest, each after manual promotion. Pauses at the first failure.",
        draft: { ...preset.draft, on_failure: "pause" },
      }
    : preset,
);

/** The fields that a preset sets; the rest of the draft stays unchanged. */
const policyOf = ({ waves, threshold_by, threshold, min_decided, on_failure, unavailable_by, unavailable, group_by }: Draft) => ({
  waves,
  threshold_by,
  threshold,
  min_decided,
  on_failure,
  unavailable_by,
  unavailable,
  group_by,
});

/** Returns the change of the draft that selects a preset. */
export const selectPreset = ({ draft }: Preset): Partial<Draft> => ({ ...policyOf(EMPTY_DRAFT), ...draft });

/** Returns the preset whose policy the draft has; undefined if the draft has another policy. */
export function presetOf(draft: Draft, presets: readonly Preset[] = PRESETS): Preset | undefined {
  const textOf = (one: Draft): string => JSON.stringify(policyOf(one));
  return presets.find((preset) => textOf({ ...EMPTY_DRAFT, ...preset.draft }) === textOf(draft));
}
