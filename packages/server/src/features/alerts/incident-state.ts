import type { IncidentStatus } from "@roamfleet/protocol";

/** Robots that match within this time of the last one join the same incident. */
export const GROUP_WINDOW_MS = 10 * 60_000;
/** Delay of the first message of an incident, so that its count includes the robots that match within this time. */
export const GROUP_WAIT_MS = 30_000;
/** A member that matches again within this time after the resolution reopens the incident. */
export const REOPEN_WINDOW_MS = 60 * 60_000;
/** An incident without active members is resolved after this time, doubled for each earlier reopening. */
const HOLD_MS = 2 * 60_000;
const HOLD_DOUBLINGS_MAX = 4;

export interface IncidentState {
  status: IncidentStatus;
  /** When the incident was opened or last reopened. */
  raised_at: Date;
  /** When a member last joined. */
  joined_at: Date;
  /** Since when no member has matched; null if one matches. */
  cleared_at: Date | null;
  /** When the message about the opening was queued; null if it was not yet. */
  notified_at: Date | null;
  acknowledged_at: Date | null;
  resolved_at: Date | null;
  /** Number of times that the incident was reopened. */
  flap_count: number;
}

/** Events of an incident. They are history entries; `opened`, `reopened` and `resolved` may have a message. */
export type IncidentEvent = "opened" | "reopened" | "resolved";
export type IncidentMessage = "opened" | "resolved";

export interface Step<S extends IncidentState> {
  incident: S;
  events: IncidentEvent[];
  /** Messages to queue in the transaction that stores the incident, in this order. */
  messages: IncidentMessage[];
}

/** A robot or deployment whose match has lasted for the duration of the rule. */
export interface DueMatch {
  rule_id: string;
  subject_id: string;
  group_id: string;
}

/** An incident that a match may join, with those of the due subjects that were its members before. */
export interface Candidate {
  id: string;
  rule_id: string;
  group_id: string;
  joined_at: Date;
  resolved_at: Date | null;
  members: ReadonlySet<string>;
}

/** The initial state of a new incident. */
export const openIncident = (now: Date): IncidentState => ({
  status: "open",
  raised_at: now,
  joined_at: now,
  cleared_at: null,
  notified_at: null,
  acknowledged_at: null,
  resolved_at: null,
  flap_count: 0,
});

const sinceMs = (at: Date, now: Date): number => now.getTime() - at.getTime();

/**
 * Returns the incident that a match joins; undefined if it opens a new one. A subject returns to the incident of which it was a member, even
 * if that one was resolved a short time ago. Otherwise it joins an unresolved incident of its rule and group that has grown recently. An
 * older incident is not joined: a robot that has been offline for weeks must not hide that its whole site goes offline.
 */
export function joinedIncident<C extends Candidate>(match: DueMatch, candidates: readonly C[], now: Date): C | undefined {
  const same = candidates.filter(({ rule_id, group_id }) => rule_id === match.rule_id && group_id === match.group_id);
  const own = same.filter(
    ({ members, resolved_at }) => members.has(match.subject_id) && (resolved_at === null || sinceMs(resolved_at, now) <= REOPEN_WINDOW_MS),
  );
  const growing = same.filter(({ resolved_at, joined_at }) => resolved_at === null && sinceMs(joined_at, now) <= GROUP_WINDOW_MS);
  return own.find(({ resolved_at }) => resolved_at === null) ?? own[0] ?? growing[0];
}

/** Returns how long no member must match before the incident is resolved. It is longer for an incident that was reopened often. */
const holdMs = ({ flap_count }: IncidentState): number => HOLD_MS * 2 ** Math.min(flap_count, HOLD_DOUBLINGS_MAX);

/**
 * Computes the next state of an incident. `joined`: whether members have joined since the last step. `active`: the number of members that
 * match now. While `muted`, no message about an opening is queued; it follows when the mute ends, if the incident is still unresolved.
 */
export function stepIncident<S extends IncidentState>(
  incident: S,
  { now, joined, active, muted }: { now: Date; joined: boolean; active: number; muted: boolean },
): Step<S> {
  const next = { ...incident };
  const step: Step<S> = { incident: next, events: [], messages: [] };
  if (joined) {
    next.joined_at = now;
    if (next.status === "resolved") {
      Object.assign(next, { ...openIncident(now), flap_count: next.flap_count + 1 });
      step.events.push("reopened");
    }
  }
  if (next.status === "resolved") return step;
  next.cleared_at = active > 0 ? null : (next.cleared_at ?? now);
  if (next.notified_at === null && !muted && sinceMs(next.raised_at, now) >= GROUP_WAIT_MS) {
    next.notified_at = now;
    step.messages.push("opened");
  }
  if (next.cleared_at !== null && sinceMs(next.cleared_at, now) >= holdMs(next)) {
    next.status = "resolved";
    next.resolved_at = now;
    step.events.push("resolved");
    // Sent even while muted: a receiver that got the opening must not show the incident forever.
    if (next.notified_at !== null) step.messages.push("resolved");
  }
  return step;
}

/** Computes the resolution of an unresolved incident by a person. */
export function resolveByPerson<S extends IncidentState & { active_count: number }>(incident: S, now: Date): Step<S> {
  const messages: IncidentMessage[] = incident.notified_at === null ? [] : ["resolved"];
  return { incident: { ...incident, status: "resolved", resolved_at: now, active_count: 0 }, events: ["resolved"], messages };
}
