import { useState } from "react";
import { cx, Section, Select, TextInput } from "../../ui/index.ts";
import { type Draft, EMPTY_DRAFT, errorAt, PRESETS } from "./draft.ts";
import { DraftShare, DraftText, type EditorParts, Row } from "./editor-parts.tsx";
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

function Failures(parts: EditorParts) {
  const { draft, onChange } = parts;
  const has_waves = draft.waves.length > 0;
  return (
    <>
      <DraftShare
        {...parts}
        field="threshold"
        label="Failures that are tolerated"
        hint="Robots that failed or rolled back."
        none={has_waves ? "None: the first is one too many" : "Any: nothing stops it early"}
        percent={{ label: "A part of those that got it", amount: "At most, in %" }}
        count={{ label: "A number of robots", amount: "At most, robots" }}
      />
      {draft.threshold_by !== "none" && (
        <DraftText
          {...parts}
          field="min_decided"
          label="Looked at once so many have ended"
          inputMode="numeric"
          placeholder="1"
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

function Limits(parts: EditorParts) {
  return (
    <>
      <DraftText
        {...parts}
        field="max_parallel"
        label="Installing at the same time, at most"
        inputMode="numeric"
        placeholder="no limit"
        hint="Robots that fetch and install. Those that are away take none of the places."
      />
      <DraftShare
        {...parts}
        field="unavailable"
        label="Unavailable at the same time, at most"
        hint="Counts those that are offline or unwell already."
        none="No limit"
        percent={{ label: "A part of them", amount: "Part, in %" }}
        count={{ label: "A number of robots", amount: "Robots" }}
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

const Tries = (parts: EditorParts) => (
  <Row>
    <DraftText
      {...parts}
      field="max_attempts"
      label="Tries for each robot"
      inputMode="numeric"
      placeholder="3"
      hint="When the release does not reach it."
    />
    <DraftText
      {...parts}
      field="verify"
      label="Watch the new version for"
      placeholder="30s"
      hint="Each robot looks at its health before it counts as applied; else it goes back by itself."
    />
  </Row>
);
