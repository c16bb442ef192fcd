import { useState } from "react";
import { cx, Section, Select, TextInput } from "../../ui/index.ts";
import { type Draft, EMPTY_DRAFT, errorAt, PRESETS } from "./draft.ts";
import { type EditorParts, Row } from "./editor-parts.tsx";
import { WaveEditor } from "./wave-editor.tsx";
import { WindowEditor } from "./window-editor.tsx";

/** How it reaches its robots. */
export function RolloutEditor({ kind, ...parts }: EditorParts & { kind: "robot" | "fleet" }) {
  return (
    <>
      {kind === "fleet" && (
        <Section title="Who goes first">
          <Presets onChange={parts.onChange} />
          <WaveEditor {...parts} />
        </Section>
      )}
      {kind === "fleet" && (
        <Section title="When it goes wrong">
          <Failures {...parts} />
        </Section>
      )}
      <Section title="How many at a time">
        <Limits {...parts} />
      </Section>
      <Section title="When">
        <WindowEditor {...parts} />
      </Section>
      <Section title="How often and how long">
        <Tries {...parts} />
      </Section>
    </>
  );
}

/** What a preset says about the policy; the rest of the draft stays. */
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

function Failures({ draft, errors, onChange }: EditorParts) {
  const has_waves = draft.waves.length > 0;
  return (
    <>
      <Row>
        <Select
          label="Failures that are tolerated"
          value={draft.threshold_by}
          onChange={(event) => onChange({ threshold_by: event.target.value as Draft["threshold_by"] })}
          options={[
            { value: "none", label: has_waves ? "None: the first is one too many" : "Any: nothing stops it early" },
            { value: "percent", label: "A part of those that got it" },
            { value: "count", label: "A number of robots" },
          ]}
          hint="Robots that failed or rolled back."
        />
        {draft.threshold_by !== "none" && (
          <TextInput
            label={draft.threshold_by === "percent" ? "At most, in %" : "At most, robots"}
            inputMode="decimal"
            value={draft.threshold}
            onChange={(event) => onChange({ threshold: event.target.value })}
            error={errorAt(errors, "rollout.failure_threshold.percent", "rollout.failure_threshold.count")}
          />
        )}
      </Row>
      {draft.threshold_by !== "none" && (
        <TextInput
          label="Looked at once so many have ended"
          inputMode="numeric"
          placeholder="1"
          value={draft.min_decided}
          onChange={(event) => onChange({ min_decided: event.target.value })}
          error={errorAt(errors, "rollout.failure_threshold.min_decided")}
          hint="So that one failure among the first two is not half of them."
        />
      )}
      {(has_waves || draft.threshold_by !== "none") && (
        <Select
          label="When more fail"
          value={draft.on_failure}
          onChange={(event) => onChange({ on_failure: event.target.value as Draft["on_failure"] })}
          options={[
            { value: "stop", label: "Stop: whoever has not got it never does" },
            { value: "pause", label: "Pause: somebody decides" },
            { value: "rollback", label: "Roll back: every robot goes back to what it ran" },
          ]}
          hint="Robots that have it in hand finish in any case."
        />
      )}
    </>
  );
}

function Limits({ draft, errors, onChange }: EditorParts) {
  return (
    <>
      <TextInput
        label="Installing at the same time, at most"
        inputMode="numeric"
        placeholder="no limit"
        value={draft.max_parallel}
        onChange={(event) => onChange({ max_parallel: event.target.value })}
        error={errorAt(errors, "rollout.max_parallel")}
        hint="Robots that fetch and install. Those that are away take none of the places."
      />
      <Row>
        <Select
          label="Unavailable at the same time, at most"
          value={draft.unavailable_by}
          onChange={(event) => onChange({ unavailable_by: event.target.value as Draft["unavailable_by"] })}
          options={[
            { value: "none", label: "No limit" },
            { value: "percent", label: "A part of them" },
            { value: "count", label: "A number of robots" },
          ]}
          hint="Counts those that are offline or unwell already."
        />
        {draft.unavailable_by !== "none" && (
          <TextInput
            label={draft.unavailable_by === "percent" ? "Part, in %" : "Robots"}
            inputMode="decimal"
            value={draft.unavailable}
            onChange={(event) => onChange({ unavailable: event.target.value })}
            error={errorAt(errors, "rollout.max_unavailable.percent", "rollout.max_unavailable.count")}
          />
        )}
      </Row>
      {draft.unavailable_by !== "none" && <Groups draft={draft} errors={errors} onChange={onChange} />}
    </>
  );
}

function Groups({ draft: { group_by }, errors, onChange }: EditorParts) {
  const by = group_by === "" || group_by === "site" ? group_by : "label";
  return (
    <Row>
      <Select
        label="Counted"
        value={by}
        onChange={(event) => onChange({ group_by: event.target.value === "label" ? "label:" : event.target.value })}
        options={[
          { value: "", label: "Over all robots of it" },
          { value: "site", label: "In each site" },
          { value: "label", label: "Among robots with the same label" },
        ]}
      />
      {by === "label" && (
        <TextInput
          label="Label"
          placeholder="zone"
          value={group_by.slice("label:".length)}
          onChange={(event) => onChange({ group_by: `label:${event.target.value}` })}
          error={errorAt(errors, "rollout.max_unavailable.group_by")}
          hint="Robots with the same value of it are a group."
        />
      )}
    </Row>
  );
}

function Tries({ draft, errors, onChange }: EditorParts) {
  return (
    <Row>
      <TextInput
        label="Tries for each robot"
        inputMode="numeric"
        placeholder="3"
        value={draft.max_attempts}
        onChange={(event) => onChange({ max_attempts: event.target.value })}
        error={errorAt(errors, "rollout.max_attempts")}
        hint="When the release does not reach it."
      />
      <TextInput
        label="Watch the new version for"
        placeholder="30s"
        value={draft.verify}
        onChange={(event) => onChange({ verify: event.target.value })}
        error={errorAt(errors, "rollout.verify_seconds")}
        hint="Each robot looks at its health before it counts as applied; else it goes back by itself."
      />
    </Row>
  );
}
