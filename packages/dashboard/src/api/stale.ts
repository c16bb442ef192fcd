import type { RouteName } from "@robofleet/protocol/paths";
import type { Change, ChangeKind } from "@robofleet/protocol/routes";

export type { Change, ChangeKind };

/** Beginning of a query key: the route's name, and what its path was filled with. */
export type KeyPrefix = readonly [RouteName, { params: Record<string, string> }] | readonly [RouteName];

const of = (name: RouteName, id: string | undefined): KeyPrefix[] => (id === undefined ? [] : [[name, { params: { id } }]]);

/** Of a robot whose place, presence or config may be another one: counts of fleets and sites, at both ends of a move. */
const ofPlacedRobot = ({ id, fleet_id, site_id, from_fleet_id, from_site_id }: Change): KeyPrefix[] => [
  ...of("getRobotConfig", id),
  ...of("diffRobotConfig", id),
  ...[fleet_id, from_fleet_id].flatMap((fleet) => of("getFleet", fleet)),
  ...[site_id, from_site_id].flatMap((site) => of("getSite", site)),
  ["listFleets"],
  ["listSites"],
];

/** Keys of the queries that may answer something else after a change. Exhaustive: a new kind does not compile without its line. */
const STALE: Record<ChangeKind, (change: Change) => readonly KeyPrefix[]> = {
  robot: (change) => [
    ...of("getRobot", change.id),
    ["listRobots"],
    ["getOverview"],
    ...(change.change === "health" ? of("getRobotHealth", change.id) : ofPlacedRobot(change)),
  ],
  // A fleet that is removed takes its enrolment keys along.
  fleet: ({ id, change }) => [...of("getFleet", id), ["listFleets"], ...(change === "removed" ? ([["listEnrollmentKeys"]] as const) : [])],
  site: ({ id }) => [...of("getSite", id), ["listSites"], ["listFleets"]],
  release: ({ id }) => [...of("getRelease", id), ["listReleases"]],
  // Targets that come into being are told of as a change of their deployment.
  deployment: ({ id, change }) => [
    ...of("getDeployment", id),
    ...(change === "targets" ? of("listDeploymentTargets", id) : []),
    ...of("listDeploymentEvents", id),
    ...of("listDeploymentWaves", id),
    ["listDeployments"],
    ["getOverview"],
    ["listFleets"],
  ],
  target: ({ deployment_id, robot_id }) => [
    ...of("getDeployment", deployment_id),
    ...of("listDeploymentTargets", deployment_id),
    ...of("listDeploymentWaves", deployment_id),
    ...of("listDeploymentEvents", deployment_id),
    ...of("getRobot", robot_id),
  ],
  config_deployment: ({ id, change }) => [
    ...of("getConfigDeployment", id),
    ...(change === "targets" ? of("listConfigDeploymentTargets", id) : []),
    ...of("listConfigDeploymentEvents", id),
    ["listConfigDeployments"],
    ["getOverview"],
  ],
  config_target: ({ deployment_id, robot_id }) => [
    ...of("getConfigDeployment", deployment_id),
    ...of("listConfigDeploymentEvents", deployment_id),
    ...of("listConfigDeploymentTargets", deployment_id),
    ...of("getRobotConfig", robot_id),
  ],
  config: ({ id }) => [...of("getConfig", id), ...of("listConfigHistory", id), ["listConfigs"], ["getRobotConfig"], ["diffRobotConfig"]],
  config_schema: () => [["listConfigSchemas"], ["getConfigSchema"]],
  enrollment_key: ({ id }) => [...of("getEnrollmentKey", id), ["listEnrollmentKeys"]],
  timeline: ({ robot_id }) => [...of("listRobotTimeline", robot_id), ["listTimeline"]],
  shell_session: ({ id, robot_id }) => [...of("getShellSession", id), ...of("listShellSessions", robot_id), ["listAllShellSessions"]],
  user: ({ id }) => [...of("getUser", id), ["listUsers"], ["getMe"]],
  token: ({ id }) => [...of("getToken", id), ["listTokens"]],
  org: () => [["getOrg"], ["getMe"]],
  signing_keys: () => [["getSigningKeys"]],
};

/** A server that is newer than the page may tell of kinds that no line is for. */
export const keysOf = (change: Change): readonly KeyPrefix[] => (Object.hasOwn(STALE, change.kind) ? STALE[change.kind](change) : []);
