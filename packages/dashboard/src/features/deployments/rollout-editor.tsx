import { useState } from "react";
import { cx, Section, Select, TextInput } from "../../ui/index.ts";
import { DraftShare, DraftText, type EditorParts, Row, WaveEditor, WindowEditor } from "./draft-fields.tsx";
import { type Draft, EMPTY_DRAFT, errorAt, PRESETS } from "./draft.ts";

/** Edits the rollout policy of a deployment. */
export function RolloutEditor({ kind, ...parts }: EditorParts & { kind: "robot" | "fleet" }) {
  return (
    <>
      {kind === "fleet" && (
        <Section title="Rollout strategy">
          <Presets onChange={parts.onChange} />
          <WaveEditor {...parts} />
        </Section>
      )}
      {kind === "fleet" && (
        <Section title="Failure policy">
          <Failures {...parts} />
        </Section>
      )}
      <Section title="Concurrency">
        <Limits {...parts} />
      </Section>
      <Section title="Schedule">
        <WindowEditor {...parts} />
      </Section>
      <Section title="Attempts and verification">
        <Tries {...parts} />
      </Section>
    </>
  );
}

/** The fields that a preset sets; the rest of the draft stays unchanged. */
const POLICY = (({ waves, threshold_by, threshold, min_decided, on_failure, unavailable_by, unavailable, group_by }: Draft) => ({
  waves,
  threshold_by,
  threshold,
  min_decided,
  on_failure,
  unavailable_by,
  unavailable,
  group_by,
}))(EMPTY_DRAFT);

function Presets({ onChange }: Pick<EditorParts, "onChange">) {
  const [chosen, setChosen] = useState(0);
  return (
    <div role="group" aria-label="Presets" className="mb-4 grid gap-2 sm:grid-cols-3">
      {PRESETS.map(({ label, hint, draft }, index) => (
        <button
          key={label}
          type="button"
          aria-pressed={index === chosen}
          onClick={() => {
            setChosen(index);
            onChange({ ...POLICY, ...draft });
          }}
          className={cx(
            "flex flex-col rounded-md border p-2.5 text-left hover:bg-hover",
            index === chosen ? "border-accent bg-accent-soft" : "border-line-strong",
          )}
        >
          <span className="block font-medium">{label}</span>
          <span className={cx("block text-xs", index === chosen ? "text-ink" : "text-muted")}>{hint}</span>
        </button>
      ))}
    </div>
  );
}

function Failures(parts: EditorParts) {
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
            { value: "stop", label: "Stop: remaining robots do not receive the release" },
            { value: "pause", label: "Pause: a user resumes, rolls back or cancels" },
            { value: "rollback", label: "Roll back: all robots return to their previous release" },
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

const Tries = (parts: EditorParts) => (
  <Row>
    <DraftText
      {...parts}
      field="max_attempts"
      label="Attempts per robot"
      inputMode="numeric"
      placeholder="3"
      hint="How often an update is started on a robot. A timeout or a failed download leads to the next attempt."
    />
    <DraftText
      {...parts}
      field="verify"
      label="Verification time"
      placeholder="30s"
      hint="Each robot must stay healthy this long; otherwise it rolls back automatically."
    />
  </Row>
);
