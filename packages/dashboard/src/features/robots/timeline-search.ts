/** Days are of the reader's zone, as YYYY-MM-DD. */
export interface TimelineSearch {
  kind?: string;
  from?: string;
  to?: string;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const isDay = (value: unknown): value is string => typeof value === "string" && DAY.test(value) && !Number.isNaN(Date.parse(value));

export const readTimelineSearch = ({ kind, from, to }: Record<string, unknown>): TimelineSearch => ({
  ...(typeof kind === "string" && kind !== "" && kind.length <= 100 ? { kind } : {}),
  ...(isDay(from) ? { from } : {}),
  ...(isDay(to) ? { to } : {}),
});

/** The first moment of a day in the reader's zone, `days` later. */
const startOf = (day: string, days = 0): string => {
  const [year, month, date] = day.split("-").map(Number) as [number, number, number];
  return new Date(year, month - 1, date + days).toISOString();
};

/** The last day is part of it. */
export const timelineQuery = ({ kind, from, to }: TimelineSearch): { kind?: string; since?: string; until?: string } => ({
  ...(kind === undefined ? {} : { kind }),
  ...(from === undefined ? {} : { since: startOf(from) }),
  ...(to === undefined ? {} : { until: startOf(to, 1) }),
});

/** Kinds of entries that one looks for, in words; the others are shown by their names. */
export const TIMELINE_KINDS: Record<string, string> = {
  "robot.connected": "Connected",
  "robot.disconnected": "Disconnected",
  "robot.enrolled": "Enrolled",
  "robot.replaced": "Computer replaced",
  "robot.moved": "Moved",
  "robot.held": "Held",
  "robot.released": "Let in again",
  "robot.duplicate_identity": "Identity used twice",
  "robot.decommissioned": "Decommissioned",
  "shell.opened": "Shell opened",
  "shell.closed": "Shell closed",
  "deployment.dispatched": "Deployment began",
  "deployment.applied": "Deployment applied",
  "deployment.failed": "Deployment failed",
  "deployment.rolled_back": "Deployment rolled back",
  "deployment.cancelled": "Deployment cancelled",
  "config.dispatched": "Config deployment began",
  "config.applied": "Config applied",
  "config.failed": "Config failed",
  "config.rolled_back": "Config rolled back",
};
