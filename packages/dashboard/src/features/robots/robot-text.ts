import type { HealthSnapshot, Robot } from "@roamfleet/protocol/routes";
import { shellLine } from "../../ui/format.ts";
import type { TimelineSearch } from "../../search.ts";

type Labels = Record<string, string>;

const KEY = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/;
const VALUE_CHARACTERS_MAX = 200;

/** Returns an error message for an invalid label; undefined if it is valid. */
export function labelProblem(key: string, value: string): string | undefined {
  if (!KEY.test(key))
    return "A label key begins with a letter or a digit and has up to 63 letters, digits, dots, dashes, slashes or underscores";
  if (value.length > VALUE_CHARACTERS_MAX)
    return `A label value has up to ${VALUE_CHARACTERS_MAX} characters, this one has ${value.length}`;
  return undefined;
}

/** Parses `key=value`, or `key:value` as in filters. */
export function readLabel(text: string): readonly [string, string] | undefined {
  const at = text.search(/[=:]/);
  return at <= 0 ? undefined : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

/** Formats labels, one per line. */
export const labelsText = (labels: Labels): string =>
  Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");

/** Parses labels, one per line; `problem` describes the first invalid line. */
export function readLabels(text: string): { labels: Labels; problem?: string } {
  const labels: Labels = {};
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const at = line.indexOf("=");
    if (at === -1) return { labels, problem: `Line ${index + 1}: enter the label as key=value` };
    const [key, value] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    const problem = labelProblem(key, value);
    if (problem !== undefined) return { labels, problem: `Line ${index + 1}: ${problem}` };
    labels[key] = value;
  }
  return { labels };
}

interface Named {
  app: string;
  tag: string;
}

const LETTER = /^\p{L}/u;

/** Whether the tag of a release starts with its app's name, such as "nav-2.4.0" of app "nav". The app name can then be left out. */
export const saysApp = ({ app, tag }: Named): boolean => tag.startsWith(app) && !LETTER.test(tag.slice(app.length));

/** The default app name. */
const APP_DEFAULT = "main";

/** Formats a release as app and tag; the tag alone if it contains the app or the app has the default name. */
export function releaseName({ app, tag }: Named): string {
  if (tag === "") return `deleted release of ${app}`;
  return app === APP_DEFAULT || saysApp({ app, tag }) ? tag : `${app} ${tag}`;
}

export interface BulkChange {
  labels?: { set?: Record<string, string>; remove?: string[] };
  fleet_id?: string;
}

/** Robots per request of a bulk change. The number is small enough that the progress is visible. */
const PART_ROBOTS = 200;
/** Maximum robot IDs in the `rf` command of a bulk change. With more robots, the command reads the IDs from a file. */
const LISTED_IDS_MAX = 5;

export const chunks = <T>(all: readonly T[], size = PART_ROBOTS): T[][] =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, index) => all.slice(index * size, (index + 1) * size));

/** Returns the equivalent `rf` command. */
export function bulkCommand(robot_ids: readonly string[], change: BulkChange): string {
  const body = { robot_ids, ...change };
  if (robot_ids.length <= LISTED_IDS_MAX) return `rf api POST /api/robots/bulk --input - <<'END'\n${JSON.stringify(body)}\nEND`;
  const { robot_ids: ids, ...rest } = body;
  return `# ids.json: an array of the ids of these ${ids.length} robots, up to 1,000 per call\njq '{robot_ids: .} + ${JSON.stringify(rest).replaceAll("'", String.raw`'\''`)}' ids.json | rf api POST /api/robots/bulk --input -`;
}

/** The `rf` commands equivalent to the actions on a robot. */
export const robotLines = {
  show: (id: string): string => shellLine("rf", "robots", "show", id),
  health: (id: string): string => shellLine("rf", "robots", "inspect", id),
  metrics: (id: string): string => shellLine("rf", "metrics", id),
  timeline: (id: string): string => shellLine("rf", "robots", "timeline", id),
  config: (id: string): string => shellLine("rf", "configs", "effective", "--robot", id),
  configDiff: (id: string): string => shellLine("rf", "configs", "diff", "--robot", id),
  configDeploy: (id: string, namespace?: string): string =>
    shellLine("rf", "configs", "deploy", "--robot", id, ...(namespace === undefined ? [] : ["--namespace", namespace]), "--watch"),
  rename: (id: string, name: string): string => shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "-f", `name=${name}`),
  move: (id: string, fleet_id: string): string => shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "-f", `fleet_id=${fleet_id}`),
  labels: (id: string, labels: Record<string, string>): string =>
    `${shellLine("rf", "api", "PATCH", `/api/robots/${id}`, "--input", "-")} <<'END'\n${JSON.stringify({ labels })}\nEND`,
  replace: (id: string): string => shellLine("rf", "robots", "replace", id),
  admit: (id: string): string => shellLine("rf", "robots", "admit", id),
  approve: (id: string): string => shellLine("rf", "robots", "approve", id),
  decommission: (id: string): string => shellLine("rf", "api", "DELETE", `/api/robots/${id}`),
};

type App = Robot["apps"][number];

export interface Workload extends App {
  kind?: string;
  restarts?: number;
}

/** Joins the server's records of a robot's apps with the workloads that the robot reports. */
export function joinWorkloads(apps: readonly App[], reported: HealthSnapshot["workloads"]): Workload[] {
  const of = new Map(reported.map((workload) => [workload.app, workload]));
  return apps.map((app) => {
    const own = of.get(app.app);
    return own === undefined ? app : { ...app, kind: own.kind, restarts: own.restarts };
  });
}

/** Formats a config value as JSON, so that the string "1" differs from the number 1. */
export const valueText = (value: unknown): string => JSON.stringify(value, null, typeof value === "object" ? 2 : undefined) ?? "—";

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
  "robot.approved": "Approved",
  "robot.replaced": "Computer replaced",
  "robot.moved": "Moved",
  "robot.held": "Quarantined",
  "robot.released": "Unblocked",
  "robot.duplicate_identity": "Duplicate identity",
  "robot.decommissioned": "Decommissioned",
  "shell.opened": "Shell opened",
  "shell.closed": "Shell closed",
  "tunnel.opened": "Tunnel opened",
  "tunnel.closed": "Tunnel closed",
  "file.read": "File read",
  "file.written": "File written",
  "deployment.dispatched": "Installing a release",
  "deployment.applied": "Release applied",
  "deployment.failed": "Release failed",
  "deployment.rolled_back": "Release rolled back",
  "deployment.cancelled": "Release cancelled",
  "config.dispatched": "Config deployment started",
  "config.applied": "Config applied",
  "config.failed": "Config failed",
  "config.rolled_back": "Config rolled back",
};
