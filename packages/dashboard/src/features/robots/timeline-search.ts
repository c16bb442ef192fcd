/** Days are YYYY-MM-DD in the browser's time zone. */
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

/** Returns the start of the day `days` after `day`, in the browser's time zone. */
const startOf = (day: string, days = 0): string => {
  const [year, month, date] = day.split("-").map(Number) as [number, number, number];
  return new Date(year, month - 1, date + days).toISOString();
};

/** Converts the filters for the API. The last day is included. */
export const timelineQuery = ({ kind, from, to }: TimelineSearch): { kind?: string; since?: string; until?: string } => ({
  ...(kind === undefined ? {} : { kind }),
  ...(from === undefined ? {} : { since: startOf(from) }),
  ...(to === undefined ? {} : { until: startOf(to, 1) }),
});

/** Names of the entry kinds that can be filtered. Other kinds are shown by their identifiers. */
export const TIMELINE_KINDS: Record<string, string> = {
  "robot.connected": "Connected",
  "robot.disconnected": "Disconnected",
  "robot.enrolled": "Enrolled",
  "robot.replaced": "Computer replaced",
  "robot.moved": "Moved",
  "robot.held": "Blocked",
  "robot.released": "Unblocked",
  "robot.duplicate_identity": "Duplicate identity",
  "robot.decommissioned": "Decommissioned",
  "shell.opened": "Shell opened",
  "shell.closed": "Shell closed",
  "deployment.dispatched": "Deployment started",
  "deployment.applied": "Deployment applied",
  "deployment.failed": "Deployment failed",
  "deployment.rolled_back": "Deployment rolled back",
  "deployment.cancelled": "Deployment cancelled",
  "config.dispatched": "Config deployment started",
  "config.applied": "Config applied",
  "config.failed": "Config failed",
  "config.rolled_back": "Config rolled back",
};
