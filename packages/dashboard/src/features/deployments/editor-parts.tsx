import type { ComponentProps, ReactNode } from "react";
import { Select, TextInput } from "../../ui/index.ts";
import { type Draft, errorAt, type Errors } from "./draft.ts";

/** The properties of all parts of the rollout editor. */
export interface EditorParts {
  draft: Draft;
  errors: Errors;
  onChange: (change: Partial<Draft>) => void;
}

/** Places fields side by side if there is space. */
export const Row = ({ children }: { children: ReactNode }) => <div className="grid gap-x-3 sm:grid-cols-2">{children}</div>;

/** Text fields of the draft, with the API paths of their errors. */
const PATHS = {
  threshold: ["rollout.failure_threshold.percent", "rollout.failure_threshold.count"],
  min_decided: ["rollout.failure_threshold.min_decided"],
  max_parallel: ["rollout.max_parallel"],
  unavailable: ["rollout.max_unavailable.percent", "rollout.max_unavailable.count"],
  cron: ["rollout.window.cron"],
  time_zone: ["rollout.window.time_zone"],
  window_minutes: ["rollout.window.duration_minutes"],
  scheduled_at: ["scheduled_at"],
  expires_in: ["rollout.expires_at"],
  max_attempts: ["rollout.max_attempts"],
  verify: ["rollout.verify_seconds"],
} satisfies { [field in keyof Draft]?: readonly string[] };

type DraftTextProps = EditorParts & { field: keyof typeof PATHS } & Omit<ComponentProps<typeof TextInput>, "value" | "error" | "onChange">;

/** A text field of the draft with its error. */
export const DraftText = ({ draft, errors, onChange, field, ...rest }: DraftTextProps) => (
  <TextInput
    {...rest}
    value={draft[field]}
    onChange={(event) => onChange({ [field]: event.target.value })}
    error={errorAt(errors, ...PATHS[field])}
  />
);

interface DraftShareProps extends EditorParts {
  field: "threshold" | "unavailable";
  label: string;
  hint: string;
  none: string;
  percent: { label: string; amount: string };
  count: { label: string; amount: string };
}

/** Selects a percentage, a number of robots, or none, with a field for the amount. */
export function DraftShare({ field, label, hint, none, percent, count, ...parts }: DraftShareProps) {
  const by = parts.draft[`${field}_by`];
  return (
    <Row>
      <Select
        label={label}
        value={by}
        onChange={(event) => parts.onChange({ [`${field}_by`]: event.target.value })}
        options={[
          { value: "none", label: none },
          { value: "percent", label: percent.label },
          { value: "count", label: count.label },
        ]}
        hint={hint}
      />
      {by !== "none" && <DraftText {...parts} field={field} label={(by === "percent" ? percent : count).amount} inputMode="decimal" />}
    </Row>
  );
}
