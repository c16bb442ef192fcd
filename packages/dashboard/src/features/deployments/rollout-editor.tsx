import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { cx, Section, Select, TextInput } from "../../ui/index.ts";
import { DraftShare, DraftText, type EditorParts, ExpiryEditor, Row, StartEditor, WaveEditor, WindowEditor } from "./draft-fields.tsx";
import { type Draft, errorAt } from "./draft.ts";
import { CONFIG_PRESETS, presetOf, PRESETS, selectPreset } from "./presets.ts";

/** Whether a release or configs are deployed. Only a release has a maintenance window, a verification and a rollback. */
type Subject = "release" | "config";

/** Edits the rollout policy of a deployment: a preset and a start time, and all other settings in a collapsed part. */
export function RolloutEditor({ kind, of = "release", ...parts }: EditorParts & { kind: "robot" | "fleet"; of?: Subject }) {
  const hint = ["Concurrency", ...(of === "release" ? ["maintenance window"] : []), "expiry", "attempts"].join(", ");
  return (
    <>
      {kind === "fleet" && (
        <Section title="Rollout strategy">
          <Presets {...parts} of={of} />
        </Section>
      )}
      <Section title="Start">
        <StartEditor {...parts} />
      </Section>
      <Advanced
        hint={kind === "fleet" ? `Waves, failure policy, ${hint.toLowerCase()}` : hint}
        is_wrong={errorAt(parts.errors, "rollout") !== undefined}
      >
        {kind === "fleet" && (
          <>
            <Section title="Waves">
              <WaveEditor {...parts} />
            </Section>
            <Section title="Failure policy">
              <Failures {...parts} of={of} />
            </Section>
          </>
        )}
        <Section title="Concurrency">
          <Limits {...parts} />
        </Section>
        <Section title="Schedule">
          <ExpiryEditor {...parts} />
          {of === "release" && <WindowEditor {...parts} />}
        </Section>
        <Section title={of === "release" ? "Attempts and verification" : "Attempts"}>
          <Tries {...parts} of={of} />
        </Section>
      </Advanced>
    </>
  );
}

/** The collapsed part of the form. It opens when one of its fields becomes invalid, to show the message. */
function Advanced({ hint, is_wrong, children }: { hint: string; is_wrong: boolean; children: ReactNode }) {
  const [is_open, setOpen] = useState(is_wrong);
  useEffect(() => {
    if (is_wrong) setOpen(true);
  }, [is_wrong]);
  return (
    <details open={is_open} onToggle={(event) => setOpen(event.currentTarget.open)} className="group mb-6 rounded-lg border border-line">
      <summary className="flex min-h-10 cursor-pointer list-none flex-wrap items-center gap-x-2 rounded-lg px-3 py-2 hover:bg-hover">
        <ChevronRight size={16} aria-hidden className="shrink-0 text-muted group-open:rotate-90" />
        <span className="font-semibold">Advanced settings</span>
        <span className="text-xs text-muted">{hint}</span>
      </summary>
      <div className="border-t border-line px-4 pt-4">{children}</div>
    </details>
  );
}

function Presets({ draft, onChange, of }: EditorParts & { of: Subject }) {
  const presets = of === "release" ? PRESETS : CONFIG_PRESETS;
  const chosen = presetOf(draft, presets);
  return (
    <>
      <div role="group" aria-label="Presets" className="grid gap-2 sm:grid-cols-3">
        {presets.map((preset) => (
          <button
            key={preset.label}
            type="button"
            aria-pressed={preset === chosen}
            onClick={() => onChange(selectPreset(preset))}
            className={cx(
              "flex flex-col rounded-md border p-2.5 text-left hover:bg-hover",
              preset === chosen ? "border-accent bg-accent-soft" : "border-line-strong",
            )}
          >
            <span className="block font-medium">{preset.label}</span>
            <span className={cx("block text-xs", preset === chosen ? "text-ink" : "text-muted")}>{preset.hint}</span>
          </button>
        ))}
      </div>
      {chosen === undefined && <p className="mt-2 text-xs text-muted">Custom: see the waves and limits in the advanced settings.</p>}
    </>
  );
}

function Failures({ of, ...parts }: EditorParts & { of: Subject }) {
  const { draft, onChange } = parts;
  const has_waves = draft.waves.length > 0;
  return (
    <>
      <DraftShare
        {...parts}
        field="threshold"
        label="Failure limit"
        hint="Counts robots that failed or were rolled back."
        none={has_waves ? "No failures allowed" : "No limit"}
        percent={{ label: "Percentage of finished robots", amount: "Maximum failures (%)" }}
        count={{ label: "Number of robots", amount: "Maximum failures" }}
      />
      {draft.threshold_by !== "none" && (
        <DraftText
          {...parts}
          field="min_decided"
          label="Minimum completed robots"
          inputMode="numeric"
          placeholder="1"
          hint="The limit applies only after this many robots have finished, so that one failure among the first two does not count as 50%."
        />
      )}
      {(has_waves || draft.threshold_by !== "none") && (
        <Select
          label="Action above the limit"
          value={draft.on_failure}
          onValue={(value) => onChange({ on_failure: value as Draft["on_failure"] })}
          options={[
            { value: "stop", label: `Stop: remaining robots do not receive the ${of}` },
            {
              value: "pause",
              label: of === "release" ? "Pause: a user resumes, rolls back or cancels" : "Pause: a user resumes or cancels",
            },
            ...(of === "release" ? [{ value: "rollback", label: "Roll back: all robots return to their previous release" }] : []),
          ]}
          hint="Robots that are already updating finish in any case."
        />
      )}
    </>
  );
}

function Limits(parts: EditorParts) {
  return (
    <>
      <DraftText
        {...parts}
        field="max_parallel"
        label="Maximum robots updating at once"
        inputMode="numeric"
        placeholder="no limit"
        hint="Counts robots that download or install. Offline robots do not count."
      />
      <DraftShare
        {...parts}
        field="unavailable"
        label="Maximum unavailable robots"
        hint="Includes robots that are already offline or unhealthy."
        none="No limit"
        percent={{ label: "Percentage of robots", amount: "Maximum unavailable (%)" }}
        count={{ label: "Number of robots", amount: "Maximum unavailable" }}
      />
      {parts.draft.unavailable_by !== "none" && <Groups {...parts} />}
    </>
  );
}

function Groups({ draft: { group_by }, errors, onChange }: EditorParts) {
  const by = group_by === "" || group_by === "site" ? group_by : "label";
  return (
    <Row>
      <Select
        label="Counted per"
        value={by}
        onValue={(value) => onChange({ group_by: value === "label" ? "label:" : value })}
        options={[
          { value: "", label: "Deployment" },
          { value: "site", label: "Site" },
          { value: "label", label: "Label value" },
        ]}
      />
      {by === "label" && (
        <TextInput
          label="Label"
          placeholder="zone"
          value={group_by.slice("label:".length)}
          onValue={(label) => onChange({ group_by: `label:${label}` })}
          error={errorAt(errors, "rollout.max_unavailable.group_by")}
          hint="Robots with the same value form a group."
        />
      )}
    </Row>
  );
}

const Tries = ({ of, ...parts }: EditorParts & { of: Subject }) => (
  <Row>
    <DraftText
      {...parts}
      field="max_attempts"
      label="Attempts per robot"
      inputMode="numeric"
      placeholder="3"
      hint="How often an update is started on a robot. A timeout or a failed download leads to the next attempt."
    />
    {of === "release" && (
      <DraftText
        {...parts}
        field="verify"
        label="Verification time"
        placeholder="30s"
        hint="Each robot must stay healthy this long; otherwise it rolls back automatically."
      />
    )}
  </Row>
);
