import type { Severity } from "@roamfleet/protocol";

/**
 * How long a wave whose soak time is over waits for the data of its checks: robots send metrics every 15 minutes by default, and an hour
 * apart at most.
 */
export const GATE_DATA_WAIT_MS = 5_400_000;

/** A check of a wave's gate. The wave passes if no check fails, and if each has seen all data of the soak time. */
export interface GateCheck {
  kind: "incidents";
  fails: boolean;
  /** What the check has found, as a message for users. */
  message: string;
  /** Until when the check has seen all data. Null: no data. */
  covered_until: Date | null;
  /** The message for users when the data does not arrive. */
  missing: string;
  incident_id: string | null;
}

/** An incident that updated robots of a wave have joined. */
export interface JoinedIncident {
  id: string;
  title: string;
  severity: Severity;
  /** Number of updated robots of the wave that joined it. */
  robots: number;
}

const MISSING = "the alert rules were not evaluated since the end of the soak time";

/** Returns the check of incidents. `evaluated_at`: when the alert rules of the org were last evaluated. Pure. */
export function checkIncidents(severity: Severity, joined: JoinedIncident | undefined, evaluated_at: Date | null): GateCheck {
  const common = { kind: "incidents", covered_until: evaluated_at, missing: MISSING } as const;
  const asked = severity === "info" ? "new incident" : `new incident of severity ${severity}${severity === "critical" ? "" : " or above"}`;
  if (joined === undefined) return { ...common, fails: false, message: `no ${asked} on updated robots of the wave`, incident_id: null };
  const { id, title, robots } = joined;
  const whose = robots === 1 ? "an updated robot" : `${robots} updated robots`;
  return {
    ...common,
    fails: true,
    message: `${whose} of the wave joined the ${joined.severity} incident ${title} (${id})`,
    incident_id: id,
  };
}
