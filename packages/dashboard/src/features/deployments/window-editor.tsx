import { useId } from "react";
import { Switch } from "../../ui/index.ts";
import { DraftText, type EditorParts, Row } from "./editor-parts.tsx";

const ZONES: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];
const OWN_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Edits the start, the expiry and the maintenance window. */
export function WindowEditor(parts: EditorParts) {
  const { draft, onChange } = parts;
  const at = new Date(draft.scheduled_at);
  const utc = Number.isNaN(at.getTime()) ? undefined : at.toISOString();
  return (
    <>
      <Row>
        <DraftText
          {...parts}
          field="scheduled_at"
          label="Start at"
          type="datetime-local"
          hint={utc === undefined ? `Empty: now. Time zone: ${OWN_ZONE}.` : `${utc} (UTC)`}
        />
        <DraftText
          {...parts}
          field="expires_in"
          label="Expires after"
          placeholder="7d"
          hint="Counted from the start. Robots that have not started by then are cancelled."
        />
      </Row>
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
        label="Opens at"
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
        hint="Robots start to install only during this time."
      />
    </div>
  );
}
