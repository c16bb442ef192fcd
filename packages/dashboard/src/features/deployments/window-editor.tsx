import { useId } from "react";
import { Switch, TextInput } from "../../ui/index.ts";
import { errorAt } from "./draft.ts";
import { type EditorParts, Row } from "./editor-parts.tsx";

const ZONES: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** In which hours robots install, when it starts and when it gives up. */
export function WindowEditor({ draft, errors, onChange }: EditorParts) {
  return (
    <>
      <Row>
        <StartField draft={draft} errors={errors} onChange={onChange} />
        <TextInput
          label="Give up after"
          placeholder="7d"
          value={draft.expires_in}
          onChange={(event) => onChange({ expires_in: event.target.value })}
          error={errorAt(errors, "rollout.expires_at")}
          hint="What no robot has begun by then is cancelled. Counts from the start."
        />
      </Row>
      <Switch
        label="Only install within a window"
        checked={draft.has_window}
        onChange={(has_window) => onChange({ has_window, ...(has_window && draft.time_zone === "UTC" ? { time_zone: OWN_ZONE } : {}) })}
        hint="Robots download at any time, wait, and install while it is open. What was begun is finished."
      />
      {draft.has_window && <WindowFields draft={draft} errors={errors} onChange={onChange} />}
    </>
  );
}

function StartField({ draft, errors, onChange }: EditorParts) {
  const at = new Date(draft.scheduled_at);
  const utc = draft.scheduled_at === "" || Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  return (
    <TextInput
      label="Start at"
      type="datetime-local"
      value={draft.scheduled_at}
      onChange={(event) => onChange({ scheduled_at: event.target.value })}
      error={errorAt(errors, "scheduled_at")}
      hint={utc === undefined ? `Empty: now. In your zone, ${OWN_ZONE}.` : `${utc} (UTC)`}
    />
  );
}

function WindowFields({ draft, errors, onChange }: EditorParts) {
  const zones = useId();
  return (
    <div className="grid gap-x-3 sm:grid-cols-3">
      <TextInput
        label="Opens at"
        className="font-mono"
        placeholder="0 2 * * 1-5"
        value={draft.cron}
        onChange={(event) => onChange({ cron: event.target.value })}
        error={errorAt(errors, "rollout.window.cron")}
        hint="Minute, hour, day of the month, month, day of the week: 0 2 * * 1-5 is 2:00 from Monday to Friday."
      />
      <TextInput
        label="Time zone"
        list={zones}
        value={draft.time_zone}
        onChange={(event) => onChange({ time_zone: event.target.value })}
        error={errorAt(errors, "rollout.window.time_zone")}
        hint="Such as Europe/Berlin."
      />
      <datalist id={zones}>
        {ZONES.map((zone) => (
          <option key={zone} value={zone} />
        ))}
      </datalist>
      <TextInput
        label="Open for, minutes"
        inputMode="numeric"
        value={draft.window_minutes}
        onChange={(event) => onChange({ window_minutes: event.target.value })}
        error={errorAt(errors, "rollout.window.duration_minutes")}
        hint="Robots begin to install only in this time."
      />
    </div>
  );
}
