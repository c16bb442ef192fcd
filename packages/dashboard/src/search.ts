import { versionNumbers } from "@roamfleet/protocol/agent-version";
import { LOG_LEVELS } from "@roamfleet/protocol/link/limits";
import { DEPLOYMENT_STATUSES, INCIDENT_STATUSES, METRIC_AGGREGATIONS, SEVERITIES, TARGET_STATUSES } from "@roamfleet/protocol/states";

/** The URL parameters of all pages. Invalid ones are ignored, because people write and share URLs by hand. */
export type Search = Record<string, unknown>;
type Read<T> = (value: unknown) => T | undefined;
type Found<Fields extends Record<string, Read<unknown>>> = { -readonly [K in keyof Fields]?: ReturnType<Fields[K]> };

/** Returns a function that parses the URL parameters in `fields`. Its result omits missing and invalid parameters. */
function searchOf<const Fields extends Record<string, Read<unknown>>>(fields: Fields): (search: Search) => Found<Fields> {
  return (search) => {
    const found = Object.entries(fields).map(([name, read]) => [name, read(search[name])] as const);
    return Object.fromEntries(found.filter(([, value]) => value !== undefined)) as Found<Fields>;
  };
}

/** Whether any parameter is set. */
export const hasFilters = (search: object): boolean => Object.values(search).some((value) => value !== undefined);

export const readNothing = searchOf({});
export type NoSearch = ReturnType<typeof readNothing>;

/**
 * Adapts a parser of URL parameters to the router. Sets unknown and invalid parameters to undefined: if the result omitted them, the router
 * would pass them to the page unparsed.
 */
export const exactSearch =
  <S extends object>(read: (search: Search) => S) =>
  (search: Search): S => ({ ...Object.fromEntries(Object.keys(search).map((name) => [name, undefined])), ...read(search) });

/**
 * Parses a text parameter. Returns undefined for text that the API refuses: blank or too long, or with NUL characters or lone surrogates.
 * Accepts numbers and booleans, because the router parses `?q=404` as a number and `?q=true` as a boolean.
 */
const text =
  (characters_max = 200): Read<string> =>
  (value) => {
    if (!["string", "number", "boolean"].includes(typeof value)) return undefined;
    const found = String(value);
    const is_valid = found.trim() !== "" && found.length <= characters_max && !found.includes("\0") && found.isWellFormed();
    return is_valid ? found : undefined;
  };

const appName: Read<string> = (value) => (/^[a-z0-9][a-z0-9._-]{0,62}$/.test(String(value)) ? text()(value) : undefined);

const versionText: Read<string> = (value) => (typeof value === "string" && versionNumbers(value) === value ? value : undefined);

const oneOf =
  <const V extends string>(values: readonly V[]): Read<V> =>
  (value) =>
    values.find((one) => one === value);

const number =
  (least: number, most: number): Read<number> =>
  (value) =>
    typeof value === "number" && value >= least && value <= most ? value : undefined;

const whole =
  (least: number, most: number): Read<number> =>
  (value) =>
    number(least, most)(value) === undefined ? undefined : Math.round(Number(value));

const on: Read<true> = (value) => (value === true ? true : undefined);

const TIME_MAX = Date.UTC(9_999, 0);
/** Formats a time as RFC 3339; undefined before 1970, after the year 9998, and for NaN. */
const isoOf = (at_ms: number): string | undefined => (at_ms >= 0 && at_ms < TIME_MAX ? new Date(at_ms).toISOString() : undefined);
const time: Read<string> = (value) => (typeof value === "string" ? isoOf(Date.parse(value)) : undefined);

export const readSignInSearch = searchOf({
  /** Accepts only paths of this dashboard, to prevent open redirects. */
  next: (value) => (typeof value === "string" && /^\/(?![/\\])/.test(value) ? value : undefined),
});

export const readAdminSearch = searchOf({ status: oneOf(["pending", "active", "suspended"]), tab: oneOf(["orgs", "audit"]) });
export type AdminSearch = ReturnType<typeof readAdminSearch>;

/** Parses the filters of the audit log and the ID of the entry that is open. */
export const readAuditSearch = searchOf({
  actor_id: text(),
  token_id: text(),
  object_id: text(),
  action: text(100),
  outcome: oneOf(["done", "refused"]),
  since: time,
  until: time,
  /** Whether to list what was read, too. */
  reads: on,
  entry: text(),
});
export type AuditSearch = ReturnType<typeof readAuditSearch>;

const readConfigFilters = searchOf({ scope: oneOf(["site", "fleet", "robot"]), scope_id: text(), namespace: text(), q: text() });
export type ConfigsSearch = ReturnType<typeof readConfigFilters>;

/**
 * Parses the scope of the configs page; without one, the page shows the organization. A scope without an ID is valid: the user has yet to
 * select the object.
 */
export function readConfigsSearch(search: Search): ConfigsSearch {
  const { scope_id, ...found } = readConfigFilters(search);
  return found.scope === undefined || scope_id === undefined ? found : { ...found, scope_id };
}

export const readDriftSearch = ({ state }: Search) => ({ state: state === "pending" ? ("pending" as const) : ("drifted" as const) });

export const readDeploymentsSearch = searchOf({
  /** `configs`: the page lists config deployments instead of release deployments. */
  tab: oneOf(["configs"]),
  status: oneOf(DEPLOYMENT_STATUSES),
  fleet_id: text(),
  robot_id: text(),
  release_id: text(),
  /** Lists only deployments created at this time or later. */
  since: time,
  /** Whether to list automatic updates of single robots too. If the list is filtered by robot, they are always included. */
  following: on,
});
export type DeploymentsSearch = ReturnType<typeof readDeploymentsSearch>;

const readPreselection = searchOf({ release: text(), site_id: text(), fleet_id: text(), labels: text(2_000), robot_id: text() });
export type NewDeploymentSearch = ReturnType<typeof readPreselection>;

/**
 * Parses the ID or tag of a release, and the target to deploy it to: a robot, or a fleet, site and labels such as `line=3, zone=a`. Also
 * accepts the parameter names `fleet`, `robot` and `release_id`.
 */
export function readNewDeploymentSearch(search: Search): NewDeploymentSearch {
  const { release = search.release_id, fleet_id = search.fleet, robot_id = search.robot } = search;
  return readPreselection({ ...search, release, fleet_id, robot_id: fleet_id === undefined || fleet_id === "" ? robot_id : undefined });
}

export const readDeploymentSearch = searchOf({
  status: oneOf(TARGET_STATUSES),
  /** Number of the wave, counted from 1, as on the page. */
  wave: whole(1, 1_001),
  q: text(),
});
export type DeploymentSearch = ReturnType<typeof readDeploymentSearch>;

/** Filters of the incidents. Without `state`, the page lists those that are not resolved. */
export const readIncidentsSearch = searchOf({
  state: oneOf([...INCIDENT_STATUSES, "all"]),
  severity: oneOf(SEVERITIES),
  site_id: text(),
  fleet_id: text(),
  robot_id: text(),
  rule_id: text(),
});
export type IncidentsSearch = ReturnType<typeof readIncidentsSearch>;

export const readCompareSearch = searchOf({ a: text(), b: text() });

export const KEY_STATUSES = ["active", "expired", "exhausted", "revoked"] as const;
export const readKeysSearch = searchOf({ status: oneOf(KEY_STATUSES) });
export const readNewKeySearch = searchOf({ fleet_id: text() });

export const readFleetsSearch = searchOf({ q: text(), site_id: text() });
export const readSitesSearch = searchOf({ q: text() });

/** Requested camera settings. Missing ones use the robot's defaults. The bounds are those of `@roamfleet/protocol/link/limits`. */
export const readCameraSearch = searchOf({ camera: text(100), fps: number(0.1, 30), width: whole(64, 1920), quality: whole(1, 100) });
export type CameraSearch = ReturnType<typeof readCameraSearch>;

const UNITS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Converts an RFC 3339 time, or a duration before now such as `2h`, to RFC 3339; undefined if invalid. */
export function timeOf(value: string, now_ms: number): string | undefined {
  const [, count, unit] = /^(\d{1,6})([smhd])$/.exec(value) ?? [];
  if (count !== undefined) return isoOf(now_ms - Number(count) * UNITS[unit as keyof typeof UNITS]);
  return /^\d{4}-\d\d-\d\d/.test(value) ? time(value) : undefined;
}

const logTime: Read<string> = (value) => (timeOf(String(value), Date.now()) === undefined ? undefined : String(value));

/** The start of a report: a time, or a duration before now. */
export const readReportSearch = searchOf({ since: logTime });

/** The filters and display options of a log. `robot_id` limits a fleet's log to one robot. */
export const readLogSearch = searchOf({
  level: oneOf(LOG_LEVELS),
  source: text(),
  q: text(),
  robot_id: text(),
  since: logTime,
  until: logTime,
  wrap: on,
});
export type LogSearch = ReturnType<typeof readLogSearch>;

/** The filters of the search in all logs. Without `since`, the page shows the last hour. */
export const readLogsSearch = searchOf({
  level: oneOf(LOG_LEVELS),
  source: text(),
  q: text(),
  site_id: text(),
  fleet_id: text(),
  robot_id: text(),
  since: logTime,
  until: logTime,
});
export type LogsSearch = ReturnType<typeof readLogsSearch>;

/** Name of the app in which the shell is opened. */
export const readShellSearch = searchOf({ app: appName });
export const SHELL_STATUSES = ["open", "ended", "aborted"] as const;
export const readShellsSearch = searchOf({ robot_id: text(), actor_id: text(), status: oneOf(SHELL_STATUSES) });
export type ShellsSearch = ReturnType<typeof readShellsSearch>;

export const readTopicSearch = searchOf({
  q: text(256),
  topic: text(256),
  /** Type of the topic. Set only if several topics with different types have the same name. */
  type: text(256),
  /** Maximum messages per second. */
  rate: (value) => (typeof value === "number" && value > 0 && value <= 1_000 ? value : undefined),
  full: on,
  /** Paths of the plotted fields, separated by commas. */
  plot: text(2_000),
});
export type TopicSearch = ReturnType<typeof readTopicSearch>;

export const readReleasesSearch = searchOf({ q: text(), app: appName, kind: text() });
export type ReleasesSearch = ReturnType<typeof readReleasesSearch>;

const LABELS_MAX = 16;
const isLabel = (value: unknown): value is string =>
  typeof value === "string" && text(300)(value) !== undefined && value.length >= 3 && /^[^:]+:.*$/.test(value);

/** Filters and sort order of the robots. Each `label` is KEY:VALUE; a robot must have all of them. */
export const readRobotsSearch = searchOf({
  status: oneOf(["online", "offline", "never_connected", "decommissioned"]),
  health: oneOf(["ok", "failing", "unknown"]),
  release_state: oneOf(["current", "behind", "failed", "unknown"]),
  config_state: oneOf(["in_sync", "pending", "drifted", "unknown"]),
  sort: oneOf(["newest", "name"]),
  q: text(),
  fleet_id: text(),
  site_id: text(),
  release_id: text(),
  agent_older_than: versionText,
  app: appName,
  label: (value): string | string[] | undefined => {
    const labels = (Array.isArray(value) ? value : [value]).filter(isLabel).slice(0, LABELS_MAX);
    return labels.length > 1 ? labels : labels[0];
  },
});
export type RobotsSearch = ReturnType<typeof readRobotsSearch>;

/** Parses the filters of the map. `robot_id`: the robot that is selected first. `frame`: whether it shows the world or a floor plan. */
export const readMapSearch = searchOf({
  site_id: text(),
  fleet_id: text(),
  robot_id: text(),
  status: oneOf(["online", "offline", "never_connected"]),
  frame: oneOf(["world", "plan"]),
});
export type MapSearch = ReturnType<typeof readMapSearch>;

export const readHealthSearch = searchOf({ range: oneOf(["1h", "24h", "7d", "30d"]) });
export type HealthRange = NonNullable<ReturnType<typeof readHealthSearch>["range"]>;

export const readMetricsSearch = searchOf({ range: oneOf(["1h", "24h", "7d"]) });
export type MetricRange = NonNullable<ReturnType<typeof readMetricsSearch>["range"]>;

/** Maximum panels of the metrics explorer. Each has its own query. */
export const PANELS_MAX = 8;
/** Maximum robots that one query names, as in the API. */
export const PANEL_ROBOTS_MAX = 20;
export const EXPLORER_RANGES = ["1h", "6h", "24h", "7d", "30d"] as const;
export type ExplorerRange = (typeof EXPLORER_RANGES)[number];
export const LEGEND_ORDERS = ["name", "last", "mean", "min", "max"] as const;
const GROUP_PATTERN = /^(robot|site|fleet|label:[A-Za-z0-9][A-Za-z0-9._/-]{0,62})$/;

/** A chart of the metrics explorer: its query, and how its legend is shown. Without a name, the page chooses a metric. */
const readPanel = searchOf({
  name: text(128),
  site_id: text(),
  fleet_id: text(),
  robot_id: (value): string[] | undefined => {
    const ids = (Array.isArray(value) ? value : [value]).flatMap((one) => text()(one) ?? []).slice(0, PANEL_ROBOTS_MAX);
    return ids.length === 0 ? undefined : ids;
  },
  label: (value) => (isLabel(value) ? value : undefined),
  group_by: (value) => (typeof value === "string" && GROUP_PATTERN.test(value) ? value : undefined),
  aggregation: oneOf(METRIC_AGGREGATIONS),
  /** Key of the only group that is shown. */
  only: text(2_000),
  sort: oneOf(LEGEND_ORDERS),
});
export type Panel = ReturnType<typeof readPanel>;

const isObject = (value: unknown): value is Search => typeof value === "object" && value !== null && !Array.isArray(value);

/** The charts and the period of the metrics explorer. `from` and `to` replace `range` if both are set. */
export const readExplorerSearch = searchOf({
  panels: (value): Panel[] | undefined => {
    const panels = Array.isArray(value) ? value.filter(isObject).slice(0, PANELS_MAX).map(readPanel) : [];
    return panels.length === 0 ? undefined : panels;
  },
  range: oneOf(EXPLORER_RANGES),
  from: time,
  to: time,
});
export type ExplorerSearch = ReturnType<typeof readExplorerSearch>;

/** A metric, a condition and a scope that fill in the form of a new alert rule. */
export const readAlertRulesSearch = searchOf({
  metric: text(128),
  condition: oneOf(["metric_above", "metric_rate_above"]),
  /** ID of a site or fleet. */
  place: text(),
});
export type AlertRulesSearch = ReturnType<typeof readAlertRulesSearch>;

/** Parses a date (YYYY-MM-DD) in the browser's time zone. */
const day: Read<string> = (value) => (/^\d{4}-\d{2}-\d{2}$/.test(String(value)) && time(value) !== undefined ? String(value) : undefined);
export const readTimelineSearch = searchOf({
  kind: (value) => (typeof value === "string" ? text(100)(value) : undefined),
  from: day,
  to: day,
});
export type TimelineSearch = ReturnType<typeof readTimelineSearch>;

export const readUsersSearch = searchOf({ q: text(), role: oneOf(["viewer", "operator", "admin"]) });
export type UsersSearch = ReturnType<typeof readUsersSearch>;

export const TOKEN_STATUSES = ["active", "expired", "revoked"] as const;
export const readTokensSearch = searchOf({ status: oneOf(TOKEN_STATUSES), user_id: text() });
export type TokensSearch = ReturnType<typeof readTokensSearch>;
