import { ArrowDown, ArrowUp, Plus, Trash2 } from "lucide-react";
import { type ComponentProps, type ReactNode, useId } from "react";
import { Button, Checkbox, IconButton, Select, Switch, TextArea, TextInput } from "../../ui/index.ts";
import { type Draft, errorAt, type Errors, type WaveDraft } from "./draft.ts";

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

type DraftTextProps = EditorParts & { field: keyof typeof PATHS } & Omit<ComponentProps<typeof TextInput>, "value" | "error" | "onValue">;

/** A text field of the draft with its error. */
export const DraftText = ({ draft, errors, onChange, field, ...rest }: DraftTextProps) => (
  <TextInput {...rest} value={draft[field]} onValue={(value) => onChange({ [field]: value })} error={errorAt(errors, ...PATHS[field])} />
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
        onValue={(value) => parts.onChange({ [`${field}_by`]: value })}
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

const WAVES_MAX = 50;

const NEW_WAVE = { by: "percent", amount: "10", soak: "10m", gate: false, incidents: "", metrics: "" } as const;
const AMOUNTS: Record<WaveDraft["by"], { label: string; hint: string; placeholder: string }> = {
  percent: { label: "Cumulative share (%)", hint: "Of all robots, including earlier waves.", placeholder: "10" },
  count: { label: "Cumulative robots", hint: "Including earlier waves.", placeholder: "20" },
  labels: { label: "Labels", hint: "Robots with all of these labels that are in no earlier wave.", placeholder: "zone=a, type=lift" },
};

/** Edits the waves in order. Robots that are in no wave form the last wave. */
export function WaveEditor({ draft, errors, onChange }: EditorParts) {
  const { waves } = draft;
  const put = (next: readonly WaveDraft[]): void => onChange({ waves: next });
  const swap = (at: number, to: number): void => {
    const next = [...waves];
    const [moved] = next.splice(at, 1);
    if (moved !== undefined) put(next.toSpliced(to, 0, moved));
  };
  return (
    <>
      <ol>
        {waves.map((wave, at) => (
          <li key={wave.key} className="mb-2 rounded-md border border-line bg-sunken p-3 pb-1">
            <WaveFields
              wave={wave}
              number={at}
              errors={errors}
              onChange={(change) => put(waves.map((one) => (one === wave ? { ...one, ...change } : one)))}
              onRemove={() => put(waves.filter((one) => one !== wave))}
              {...(at === 0 ? {} : { onUp: () => swap(at, at - 1) })}
              {...(at === waves.length - 1 ? {} : { onDown: () => swap(at, at + 1) })}
            />
          </li>
        ))}
      </ol>
      {waves.length > 0 && <p className="mb-2 text-xs text-muted">Remaining robots are in wave {waves.length + 1}.</p>}
      <Button
        icon={Plus}
        disabled={waves.length >= WAVES_MAX}
        onClick={() => put([...waves, { ...NEW_WAVE, key: Math.max(0, ...waves.map(({ key }) => key)) + 1, ...nextSize(waves) }])}
      >
        {waves.length === 0 ? "Add first wave" : "Add wave"}
      </Button>
    </>
  );
}

/**
 * Suggests the percentage of a new wave: five times that of the last wave, at most 100. It must be larger, because percentages are
 * cumulative.
 */
function nextSize(waves: readonly WaveDraft[]): Partial<WaveDraft> {
  const last = waves.findLast(({ by }) => by === "percent");
  const percent = Number(last?.amount ?? 0);
  return last === undefined || !(percent > 0) ? {} : { amount: String(Math.min(100, percent * 5)) };
}

interface WaveParts {
  wave: WaveDraft;
  /** Index of the wave, counted from 0. */
  number: number;
  errors: Errors;
  onChange: (change: Partial<WaveDraft>) => void;
  onRemove: () => void;
  onUp?: () => void;
  onDown?: () => void;
}

function WaveFields({ wave, number, errors, onChange, onRemove, onUp, onDown }: WaveParts) {
  const path = `rollout.waves.${number}`;
  const amount = AMOUNTS[wave.by];
  return (
    <>
      <div className="mb-2 flex items-center justify-between">
        <h3 className="font-medium">Wave {number + 1}</h3>
        <span className="-my-1">
          <IconButton label={`Move wave ${number + 1} up`} icon={ArrowUp} disabled={onUp === undefined} onClick={onUp} />
          <IconButton label={`Move wave ${number + 1} down`} icon={ArrowDown} disabled={onDown === undefined} onClick={onDown} />
          <IconButton label={`Remove wave ${number + 1}`} icon={Trash2} onClick={onRemove} />
        </span>
      </div>
      <div className="grid gap-x-3 sm:grid-cols-3">
        <Select
          label="Size"
          value={wave.by}
          onValue={(value) => onChange({ by: value as WaveDraft["by"], amount: "" })}
          options={[
            { value: "percent", label: "Percentage" },
            { value: "count", label: "Number of robots" },
            { value: "labels", label: "Labels" },
          ]}
        />
        <TextInput
          label={amount.label}
          placeholder={amount.placeholder}
          value={wave.amount}
          onValue={(amount) => onChange({ amount })}
          error={errorAt(errors, `${path}.percent`, `${path}.count`, `${path}.labels`) ?? errors[path]}
          hint={amount.hint}
        />
        <TextInput
          label="Soak time"
          placeholder="none"
          value={wave.soak}
          onValue={(soak) => onChange({ soak })}
          error={errorAt(errors, `${path}.soak_seconds`)}
          hint="How long the wave must stay healthy before the next one opens."
        />
      </div>
      <Select
        label="Incident gate"
        value={wave.incidents}
        onValue={(value) => onChange({ incidents: value as WaveDraft["incidents"] })}
        options={[
          { value: "", label: "None" },
          { value: "critical", label: "Pause on a new critical incident" },
          { value: "warning", label: "Pause on a new incident of severity warning or above" },
          { value: "info", label: "Pause on any new incident" },
        ]}
        hint="Counts incidents that updated robots of the wave join until the soak time ends."
      />
      <TextArea
        label="Metric gate"
        rows={2}
        placeholder="memory_used_bytes mean rise 10%"
        value={wave.metrics}
        onValue={(metrics) => onChange({ metrics })}
        error={errorAt(errors, `${path}.gate_metrics`)}
        hint="One per line. Pauses if a metric leaves its bound during the soak time."
      />
      <div className="mb-2">
        <Checkbox label="Require manual promotion" checked={wave.gate} onChange={(gate) => onChange({ gate })} />
      </div>
    </>
  );
}

const ZONES: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Edits the start time. */
export function StartEditor(parts: EditorParts) {
  const at = new Date(parts.draft.scheduled_at);
  const utc = Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  return (
    <Row>
      <DraftText
        {...parts}
        field="scheduled_at"
        label="Start at"
        type="datetime-local"
        hint={utc === undefined ? `Empty: starts now. Time zone: ${OWN_ZONE}` : `${utc} (UTC)`}
      />
    </Row>
  );
}

/** Edits the expiry. */
export const ExpiryEditor = (parts: EditorParts) => (
  <Row>
    <DraftText
      {...parts}
      field="expires_in"
      label="Expires after"
      placeholder="7d"
      hint="Time after the start at which the deployment is cancelled for robots that have not started to update."
    />
  </Row>
);

/** Edits the maintenance window. */
export function WindowEditor(parts: EditorParts) {
  const { draft, onChange } = parts;
  return (
    <>
      <Switch
        label="Install only in a maintenance window"
        checked={draft.has_window}
        onChange={(has_window) => onChange({ has_window, ...(has_window && draft.time_zone === "UTC" ? { time_zone: OWN_ZONE } : {}) })}
        hint="Robots download at any time and install while the window is open. Installations in progress finish."
      />
      {draft.has_window && <WindowFields {...parts} />}
    </>
  );
}

function WindowFields(parts: EditorParts) {
  const zones = useId();
  return (
    <div className="grid gap-x-3 sm:grid-cols-3">
      <DraftText
        {...parts}
        field="cron"
        label="Opens at (cron expression)"
        className="font-mono"
        placeholder="0 2 * * 1-5"
        hint="Minute, hour, day of the month, month, day of the week: 0 2 * * 1-5 is 2:00 from Monday to Friday."
      />
      <DraftText {...parts} field="time_zone" label="Time zone" list={zones} hint="For example Europe/Berlin." />
      <datalist id={zones}>
        {ZONES.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      <DraftText
        {...parts}
        field="window_minutes"
        label="Duration (minutes)"
        inputMode="numeric"
        hint="Time for which the window stays open. Robots start to install only while it is open."
      />
    </div>
  );
}
