import type { RouteName } from "@roamfleet/protocol/paths";
import type { Change, ChangeKind, ChangeSummary } from "@roamfleet/protocol/routes";

export type { Change, ChangeKind, ChangeSummary };

/** Prefix of a query key: the route's name and its path parameters. */
type KeyPrefix = readonly [RouteName, { params: Record<string, string> }] | readonly [RouteName];

/** Matches any value. It replaces the fields that a summary of changes omits. */
const ANY = "*";

const of = (name: RouteName, id: string | undefined): KeyPrefix[] => {
  if (id === undefined) return [];
  return id === ANY ? [[name]] : [[name, { params: { id } }]];
};

const mayBe = (side: string, { change }: Change): boolean => change === side || change === ANY;

/** Keys of queries that depend on a robot's fleet, site, presence or config. After a move, they include the old fleet and site. */
const ofPlacedRobot = ({ id, fleet_id, site_id, from_fleet_id, from_site_id }: Change): KeyPrefix[] => [
  ...of("getRobotConfig", id),
  ...of("diffRobotConfig", id),
  ...[fleet_id, from_fleet_id].flatMap((fleet) => of("getFleet", fleet)),
  ...[site_id, from_site_id].flatMap((site) => of("getSite", site)),
  ["listFleets"],
  ["listSites"],
];

/** Keys of the queries that each kind of change invalidates. Exhaustive: a new kind without a line does not compile. */
const STALE: Record<ChangeKind, (change: Change) => readonly KeyPrefix[]> = {
  robot: (change) => [
    ...of("getRobot", change.id),
    ...of("explainRobot", change.id),
    ["listRobots"],
    ["getOverview"],
    ...(mayBe("health", change) ? of("getRobotHealth", change.id) : []),
    ...(change.change === "health" ? [] : ofPlacedRobot(change)),
  ],
  // Removing a fleet also removes its enrollment keys.
  fleet: (change) => [
    ...of("getFleet", change.id),
    ["listFleets"],
    ...(mayBe("removed", change) ? ([["listEnrollmentKeys"]] as const) : []),
  ],
  site: ({ id }) => [...of("getSite", id), ...of("getFloorPlan", id), ["listSites"], ["listFleets"]],
  release: ({ id }) => [...of("getRelease", id), ["listReleases"], ["explainRobot"]],
  // The server reports new targets of a deployment as a change of the deployment.
  deployment: (change) => [
    ...of("getDeployment", change.id),
    ...(mayBe("targets", change) ? of("listDeploymentTargets", change.id) : []),
    ...of("listDeploymentEvents", change.id),
    ...of("listDeploymentWaves", change.id),
    ["listDeployments"],
    ["explainRobot"],
    ["getOverview"],
    ["getFleetOverview"],
    ["listFleets"],
  ],
  target: ({ deployment_id, robot_id }) => [
    ["explainRobot"],
    ...of("getDeployment", deployment_id),
    ...of("listDeploymentTargets", deployment_id),
    ...of("listDeploymentWaves", deployment_id),
    ...of("listDeploymentEvents", deployment_id),
    ...of("getRobot", robot_id),
  ],
  config_deployment: (change) => [
    ...of("getConfigDeployment", change.id),
    ...(mayBe("targets", change) ? of("listConfigDeploymentTargets", change.id) : []),
    ...of("listConfigDeploymentEvents", change.id),
    ...of("listConfigDeploymentWaves", change.id),
    ["listConfigDeployments"],
    ["getOverview"],
  ],
  config_target: ({ deployment_id, robot_id }) => [
    ...of("getConfigDeployment", deployment_id),
    ...of("listConfigDeploymentEvents", deployment_id),
    ...of("listConfigDeploymentTargets", deployment_id),
    ...of("listConfigDeploymentWaves", deployment_id),
    ...of("getRobotConfig", robot_id),
  ],
  config: ({ id }) => [...of("getConfig", id), ...of("listConfigHistory", id), ["listConfigs"], ["getRobotConfig"], ["diffRobotConfig"]],
  config_schema: () => [["listConfigSchemas"], ["getConfigSchema"]],
  enrollment_key: ({ id }) => [...of("getEnrollmentKey", id), ["listEnrollmentKeys"]],
  timeline: ({ robot_id }) => [...of("listRobotTimeline", robot_id), ["listTimeline"]],
  shell_session: ({ id, robot_id }) => [...of("getShellSession", id), ...of("listShellSessions", robot_id), ["listAllShellSessions"]],
  alert_rule: ({ id }) => [...of("getAlertRule", id), ["listAlertRules"]],
  alert_mute: () => [["listAlertMutes"]],
  incident: ({ id }) => [...of("getIncident", id), ...of("listIncidentMembers", id), ...of("listIncidentEntries", id), ["listIncidents"]],
  user: ({ id }) => [...of("getUser", id), ["listUsers"], ["getMe"]],
  token: ({ id }) => [...of("getToken", id), ["listTokens"]],
  org: () => [["getOrg"], ["getMe"]],
  signing_keys: () => [["getSigningKeys"]],
  saved_view: () => [["listViews"]],
  channel: ({ id }) => [...of("getChannel", id), ...of("listDeliveries", id), ["listChannels"]],
};

const ANY_FIELDS = {
  id: ANY,
  change: ANY,
  robot_id: ANY,
  fleet_id: ANY,
  site_id: ANY,
  from_fleet_id: ANY,
  from_site_id: ANY,
  deployment_id: ANY,
} satisfies Partial<Change>;

/** Returns the keys of the queries that a change invalidates. A newer server may send unknown kinds: they invalidate nothing. */
export function keysOf(change: Change | ChangeSummary): readonly KeyPrefix[] {
  if (!Object.hasOwn(STALE, change.kind)) return [];
  return STALE[change.kind](isSummary(change) ? { ...ANY_FIELDS, ...change } : change);
}

export const isSummary = (change: Change | ChangeSummary): change is ChangeSummary => "count" in change;
