/** What a deployment is for: one robot, the members of a fleet, or the robots that match a selector. */
export const TARGET_KINDS = ["robot", "fleet", "selection"] as const;
export type TargetKind = (typeof TARGET_KINDS)[number];

/** Maximum robots that a selector may list. */
export const SELECTED_ROBOTS_MAX = 1_000;

/** States of deployments and of their targets (one target is one robot of a deployment). */
export const TERMINAL_STATUSES = ["applied", "failed", "rolled_back", "cancelled"] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

export const DEPLOYMENT_STATUSES = [
  "scheduled",
  "queued",
  "in_progress",
  "paused",
  "rolling_back",
  "cancelling",
  ...TERMINAL_STATUSES,
] as const;
export type DeploymentStatus = (typeof DEPLOYMENT_STATUSES)[number];

export const TARGET_STATUSES = [
  "pending",
  "queued",
  "dispatched",
  "downloading",
  "staged",
  "installing",
  "verifying",
  "rolling_back",
  ...TERMINAL_STATUSES,
] as const;
export type TargetStatus = (typeof TARGET_STATUSES)[number];

/**
 * What a target of a deployment waits for. `robot`: the robot has downloaded the release and does not allow the update yet. `approval`: the
 * config files contain secrets, and an admin has not approved the robot.
 */
export const WAITING_FOR = ["robot_online", "slot", "window", "artifact", "previous_deployment", "gate", "robot", "approval"] as const;
export type WaitingFor = (typeof WAITING_FOR)[number];

/** How the values of several robots are combined to one. */
export const METRIC_AGGREGATIONS = ["avg", "min", "max", "sum", "count"] as const;
export type MetricAggregation = (typeof METRIC_AGGREGATIONS)[number];

/** Why a deployment or one of its targets has its status, for example why it failed, was paused or rolled back. */
export const REASONS = [
  "already_installed",
  "timeout",
  "health_check_failed",
  "crash_loop",
  "download_failed",
  "digest_mismatch",
  "signature_invalid",
  "incompatible",
  "insufficient_disk",
  "rejected_by_robot",
  "rollback_requested",
  "rollback_failed",
  "superseded",
  "expired",
  "no_targets",
  "robot_removed",
  "scope_lost",
  "creator_removed",
  "user_cancelled",
  "threshold_exceeded",
  "gate_failed",
  "agent_lost",
] as const;
export type Reason = (typeof REASONS)[number];

/**
 * What must hold before a robot installs a release, in the order in which an explanation lists it. `result`: an earlier attempt has not
 * ended the target without installing the release.
 */
export const CONDITIONS = [
  "robot_in_service",
  "included",
  "not_superseded",
  "result",
  "started",
  "not_stopped",
  "not_expired",
  "not_paused",
  "allowed",
  "release_exists",
  "artifact",
  "wave",
  "gate",
  "robot_admitted",
  "robot_online",
  "kind",
  "architecture",
  "previous_deployment",
  "max_parallel",
  "max_unavailable",
  "attempt",
  "window",
  "robot_allows",
] as const;
export type ConditionName = (typeof CONDITIONS)[number];

/**
 * State of a robot in an explanation. `no_deployment`: no deployment concerns the robot. `blocked`: an unmet condition needs a change.
 * `waiting`: all unmet conditions are met later without a change. `installing`: all conditions are met.
 */
export const EXPLAINED_STATES = ["no_deployment", "installed", "installing", "waiting", "blocked"] as const;
export type ExplainedState = (typeof EXPLAINED_STATES)[number];

export const ROBOT_STATUSES = ["online", "offline", "never_connected", "decommissioned"] as const;
export const HEALTH_STATES = ["ok", "failing", "unknown"] as const;
export const RELEASE_STATES = ["current", "behind", "failed", "unknown"] as const;
export const CONFIG_STATES = ["in_sync", "pending", "drifted", "unknown"] as const;
export const ENROLLMENT_KEY_STATUSES = ["active", "expired", "exhausted", "revoked"] as const;
export const TOKEN_STATUSES = ["active", "expired", "revoked"] as const;

export const isTerminal = (status: string): status is TerminalStatus => (TERMINAL_STATUSES as readonly string[]).includes(status);

export const ROLES = ["viewer", "operator", "admin"] as const;
export type Role = (typeof ROLES)[number];

/** Returns whether `role` includes `needed`: each role includes all previous ones. */
export const roleAtLeast = (role: Role, needed: Role): boolean => ROLES.indexOf(role) >= ROLES.indexOf(needed);

/**
 * Release kinds that agents can install without an extension, if the robot has what the kind needs. Releases of any other kind can be stored, but are deployed only to agents that
 * announce the kind.
 */
export const RELEASE_KINDS = ["container_image", "app_bundle", "file", "os_image", "agent"] as const;

/** The app of all releases of kind `agent`, and of no other kind: a robot has one agent. */
export const AGENT_APP = "roamfleet-agent";

/**
 * Debian's names of architectures by the names that robots report, where they differ. The agent's packages and releases use Debian's names.
 */
const DEBIAN_ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64" };

/** Returns Debian's name of an architecture that a robot reports: `amd64` of `x64`. */
export const debianArch = (arch: string): string => DEBIAN_ARCHITECTURES[arch] ?? arch;

/** Returns the name by which robots report an architecture: `x64` of `amd64`. */
export const reportedArch = (debian_arch: string): string =>
  Object.keys(DEBIAN_ARCHITECTURES).find((arch) => DEBIAN_ARCHITECTURES[arch] === debian_arch) ?? debian_arch;

export const ALERT_CONDITIONS = [
  "robot_offline",
  "check_failing",
  "disk_above",
  "config_drift",
  "agent_outdated",
  "metric_above",
  "metric_below",
  "metric_rate_above",
  "metric_absent",
  "deployment_failed",
  "deployment_paused",
] as const;
export type AlertConditionType = (typeof ALERT_CONDITIONS)[number];

export const SEVERITIES = ["critical", "warning", "info"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** Kinds of channels through which incidents are reported. */
export const CHANNEL_KINDS = ["webhook", "slack", "pagerduty", "email"] as const;
export type ChannelKind = (typeof CHANNEL_KINDS)[number];

export const DELIVERY_KINDS = ["opened", "resolved", "test"] as const;
export type DeliveryKind = (typeof DELIVERY_KINDS)[number];

/** `failed`: given up after the last attempt. */
export const DELIVERY_STATUSES = ["pending", "delivered", "failed"] as const;
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number];
/**
 * Why a report lists robots. The first four are events of the period: lost connections, failed installations and quarantines. The others
 * are current states.
 */
export const REPORTED_ROBOTS = ["went_offline", "install_failed", "config_failed", "quarantined", "offline", "failing", "held"] as const;
export type ReportedRobotsKind = (typeof REPORTED_ROBOTS)[number];

/** Pages of the dashboard with saved views. */
export const VIEW_PAGES = ["robots", "fleets", "sites", "deployments", "releases", "incidents", "logs", "metrics", "audit"] as const;
export type ViewPage = (typeof VIEW_PAGES)[number];

export const INCIDENT_STATUSES = ["open", "acknowledged", "resolved"] as const;
export type IncidentStatus = (typeof INCIDENT_STATUSES)[number];

/** Kinds of an incident's history entries. */
export const INCIDENT_ENTRIES = ["opened", "acknowledged", "assigned", "commented", "resolved", "reopened"] as const;
export type IncidentEntryKind = (typeof INCIDENT_ENTRIES)[number];
