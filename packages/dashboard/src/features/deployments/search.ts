import { DEPLOYMENT_STATUSES, type DeploymentStatus, TARGET_STATUSES, type TargetStatus } from "@roamfleet/protocol/states";

type Search = Record<string, unknown>;

/** Returns the named URL parameters that are non-empty strings. */
function textsOf<const N extends string>(search: Search, names: readonly N[]): { [K in N]?: string } {
  const found: { [K in N]?: string } = {};
  for (const name of names) {
    const value = search[name];
    const text = typeof value === "number" ? String(value) : value;
    if (typeof text === "string" && text !== "") found[name] = text;
  }
  return found;
}

function oneOf<const V extends string>(value: unknown, values: readonly V[]): V | undefined {
  return values.find((one) => one === value);
}

export interface DeploymentsSearch {
  /** Shows config deployments instead of release deployments. */
  tab?: "configs";
  status?: DeploymentStatus;
  fleet_id?: string;
  robot_id?: string;
  release_id?: string;
  /** Created at this time or later. */
  since?: string;
  /** Includes automatic updates of single robots. With a robot filter they are always included. */
  following?: true;
}

export function readDeploymentsSearch(search: Search): DeploymentsSearch {
  const status = oneOf(search.status, DEPLOYMENT_STATUSES);
  const tab = oneOf(search.tab, ["configs"]);
  return {
    ...(tab === undefined ? {} : { tab }),
    ...(status === undefined ? {} : { status }),
    ...textsOf(search, ["fleet_id", "robot_id", "release_id"]),
    ...(typeof search.since === "string" && !Number.isNaN(Date.parse(search.since)) ? { since: new Date(search.since).toISOString() } : {}),
    ...(search.following === true ? { following: true as const } : {}),
  };
}

/** Converts the filters to the query of the API. */
export function deploymentsQuery({ tab: _, following, ...query }: DeploymentsSearch) {
  return { ...query, ...(following === true || query.robot_id !== undefined ? {} : { cause: "request" as const }) };
}

export interface NewDeploymentSearch {
  /** ID or tag. */
  release?: string;
  fleet_id?: string;
  robot_id?: string;
}

/** Parses the preselection. Accepts `fleet`, `robot` and `release_id`, too, because people write such URLs by hand. */
export function readNewDeploymentSearch(search: Search): NewDeploymentSearch {
  const { release = search.release_id, fleet_id = search.fleet, robot_id = search.robot } = search;
  const found = textsOf({ release, fleet_id, robot_id }, ["release", "fleet_id", "robot_id"]);
  if (found.fleet_id !== undefined) delete found.robot_id;
  return found;
}

export interface DeploymentSearch {
  status?: TargetStatus;
  /** Counted from 1, as the page shows it. */
  wave?: number;
  q?: string;
}

export function readDeploymentSearch(search: Search): DeploymentSearch {
  const status = oneOf(search.status, TARGET_STATUSES);
  const wave = Number(search.wave);
  return {
    ...(status === undefined ? {} : { status }),
    ...(Number.isSafeInteger(wave) && wave > 0 ? { wave } : {}),
    ...textsOf(search, ["q"]),
  };
}

export interface CompareSearch {
  a?: string;
  b?: string;
}

export const readCompareSearch = (search: Search): CompareSearch => textsOf(search, ["a", "b"]);
