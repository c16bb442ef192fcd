import { ArrowDown, ArrowUp, Plus, Trash2 } from "lucide-react";
import { Button, Checkbox, IconButton, Select, TextInput } from "../../ui/index.ts";
import { errorAt, type Errors, type WaveDraft } from "./draft.ts";
import type { EditorParts } from "./editor-parts.tsx";

const WAVES_MAX = 50;
const ICON = { size: 14, "aria-hidden": true } as const;

const NEW_WAVE = { by: "percent", amount: "10", soak: "10m", gate: false } as const;
const AMOUNTS: Record<WaveDraft["by"], { label: string; hint: string; placeholder: string }> = {
  percent: { label: "Up to (%)", hint: "Of all robots, including earlier waves.", placeholder: "10" },
  count: { label: "Up to (robots)", hint: "Including earlier waves.", placeholder: "20" },
  labels: { label: "Labels", hint: "Robots with all of these labels that are in no earlier wave.", placeholder: "zone=a, type=lift" },
};

/** Edits the waves in order. Robots that are in no wave form the last one. */
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
        icon={<Plus {...ICON} />}
        disabled={waves.length >= WAVES_MAX}
        onClick={() => put([...waves, { ...NEW_WAVE, key: Math.max(0, ...waves.map(({ key }) => key)) + 1, ...nextSize(waves) }])}
      >
        {waves.length === 0 ? "Add first wave" : "Add wave"}
      </Button>
    </>
  );
}

/** Percentages are cumulative: suggests a larger one for the next wave. */
function nextSize(waves: readonly WaveDraft[]): Partial<WaveDraft> {
  const last = waves.findLast(({ by }) => by === "percent");
  const percent = Number(last?.amount ?? 0);
  return last === undefined || !(percent > 0) ? {} : { amount: String(Math.min(100, percent * 5)) };
}

interface WaveParts {
  wave: WaveDraft;
  /** Counted from 0. */
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
          <IconButton label={`Move wave ${number + 1} up`} icon={<ArrowUp {...ICON} />} disabled={onUp === undefined} onClick={onUp} />
          <IconButton
            label={`Move wave ${number + 1} down`}
            icon={<ArrowDown {...ICON} />}
            disabled={onDown === undefined}
            onClick={onDown}
          />
          <IconButton label={`Remove wave ${number + 1}`} icon={<Trash2 {...ICON} />} onClick={onRemove} />
        </span>
      </div>
      <div className="grid gap-x-3 sm:grid-cols-3">
        <Select
          label="Size"
          value={wave.by}
          onChange={(event) => onChange({ by: event.target.value as WaveDraft["by"], amount: "" })}
          options={[
            { value: "percent", label: "Percentage" },
            { value: "count", label: "Number of robots" },
            { value: "labels", label: "By label" },
          ]}
        />
        <TextInput
          label={amount.label}
          placeholder={amount.placeholder}
          value={wave.amount}
          onChange={(event) => onChange({ amount: event.target.value })}
          error={errorAt(errors, `${path}.percent`, `${path}.count`, `${path}.labels`) ?? errors[path]}
          hint={amount.hint}
        />
        <TextInput
          label="Soak time"
          placeholder="none"
          value={wave.soak}
          onChange={(event) => onChange({ soak: event.target.value })}
          error={errorAt(errors, `${path}.soak_seconds`)}
          hint="Time before the next wave."
        />
      </div>
      <div className="mb-2">
        <Checkbox label="Require manual promotion" checked={wave.gate} onChange={(gate) => onChange({ gate })} />
      </div>
    </>
  );
}
