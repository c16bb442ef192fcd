import { type Role, roleAtLeast, ROLES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Fault, forbidden } from "./fault.ts";
import type { WebSession } from "./web-session.ts";
import { identifier, list, sql, type Statement } from "./sql.ts";

/** A site with all that is in it, or one fleet. One that names both or neither holds nothing. */
export interface Scope {
  site_id?: string;
  fleet_id?: string;
}

/** Places that a role is limited to; empty is the whole org. */
export type Scopes = readonly Scope[];

export interface Grant {
  role: Role;
  scopes: Scopes;
}

/** Who calls: a portal token, resolved to one org. */
export interface Caller {
  org_id: string;
  /** The highest of the grants: what the caller may do somewhere, not everywhere. `roleOn` says where. */
  role: Role;
  /** What the user was given in the org, none above the token's own role. */
  grants: readonly Grant[];
  /** What the token was limited to when it was made; nothing outside is reached, whatever the grants say. */
  limit: Scopes;
  actor: Actor;
  token_id: string;
  /** Of who came by the cookie of a session instead of the token that it stands in for. */
  session?: WebSession;
  /** Every org that the token may speak for. */
  orgs: readonly { org_id: string; role: Role; is_default: boolean }[];
}

/** A robot that signed its request. */
export interface RobotCaller {
  org_id: string;
  robot_id: string;
  /** Of the key that it signed with: a replacement gives the robot another one. */
  key_fingerprint: string;
}

export const SYSTEM: Actor = { type: "system", id: null, name: null };

export const robotActor = (robot_id: string): Actor => ({ type: "robot", id: robot_id, name: null });

export function requireRole(caller: Caller, needed: Role): void {
  if (!roleAtLeast(caller.role, needed)) throw forbidden(`this needs the role ${needed}; the token has ${caller.role}`);
}

/** Where something is. Without a fleet it belongs to the site as such, without both to the whole org. */
export interface Place {
  site_id: string | null;
  fleet_id: string | null;
}

export const WHOLE_ORG: Place = { site_id: null, fleet_id: null };

type Grants = Pick<Caller, "grants" | "limit">;

/** The highest of the roles; undefined of none. */
export const highestRole = (roles: readonly Role[]): Role | undefined => ROLES.findLast((role) => roles.includes(role));

export const lowerRole = (a: Role, b: Role): Role => (roleAtLeast(a, b) ? b : a);

/** Whether one of the scopes contains the place; none at all contain everything. */
export const contains = (scopes: Scopes, { site_id, fleet_id }: Place): boolean =>
  scopes.length === 0 ||
  scopes.some((scope) =>
    scope.site_id === undefined
      ? scope.fleet_id !== undefined && scope.fleet_id === fleet_id
      : scope.fleet_id === undefined && scope.site_id === site_id,
  );

/** The highest role among the grants that contain the place; undefined when none does. What is granted elsewhere adds nothing. */
export function roleOn({ grants, limit }: Grants, place: Place): Role | undefined {
  if (!contains(limit, place)) return undefined;
  return highestRole(grants.filter(({ scopes }) => contains(scopes, place)).map(({ role }) => role));
}

/** Nothing contains it: `missing`, as if it did not exist. Contained, and the role there is too low: 403. */
export function requireOn(caller: Grants, needed: Role, place: Place, missing: () => Fault): void {
  requireReached(roleOn(caller, place), needed, missing);
}

export function requireReached(role: Role | undefined, needed: Role, missing: () => Fault): void {
  if (role === undefined) throw missing();
  if (!roleAtLeast(role, needed)) throw forbidden(`this needs the role ${needed}; the token has ${role} there`);
}

export const mayInWholeOrg = (caller: Grants, needed: Role): boolean => {
  const role = roleOn(caller, WHOLE_ORG);
  return role !== undefined && roleAtLeast(role, needed);
};

/** 403 unless the role holds in the whole org. */
export function requireInWholeOrg(caller: Caller, needed: Role): void {
  requireRole(caller, needed);
  if (!mayInWholeOrg(caller, needed)) throw forbidden(`this needs the role ${needed} in the whole org; the token has it in a part only`);
}

const EVERYTHING = sql``;

/**
 * ` and …`: of rows whose site and fleet stand in these columns, only those that the caller may see, for the end of a
 * where clause; nothing to check for who sees the whole org. `fleet_column` null: the rows are in no fleet.
 */
export function visible({ grants, limit }: Grants, site_column: string, fleet_column: string | null): Statement<unknown> {
  const granted = grants.some(({ scopes }) => scopes.length === 0)
    ? EVERYTHING
    : within(
        grants.flatMap(({ scopes }) => scopes),
        site_column,
        fleet_column,
      );
  const limited = limit.length === 0 ? EVERYTHING : within(limit, site_column, fleet_column);
  return granted === EVERYTHING ? limited : limited === EVERYTHING ? granted : sql`${granted}${limited}`;
}

/** Whether the caller sees all of the org, so that `visible` says nothing. */
export const seesWholeOrg = (caller: Grants): boolean => mayInWholeOrg(caller, "viewer");

function within(scopes: Scopes, site_column: string, fleet_column: string | null): Statement<unknown> {
  const { sites, fleets } = placesOf(scopes);
  const at_site = sql`${identifier(site_column)} = any(${list(sites)}::text[])`;
  return fleet_column === null
    ? sql` and ${at_site}`
    : sql` and (${at_site} or ${identifier(fleet_column)} = any(${list(fleets)}::text[]))`;
}

function placesOf(scopes: Scopes): { sites: string[]; fleets: string[] } {
  const sites = scopes.flatMap(({ site_id, fleet_id }) => (site_id !== undefined && fleet_id === undefined ? [site_id] : []));
  const fleets = scopes.flatMap(({ site_id, fleet_id }) => (fleet_id !== undefined && site_id === undefined ? [fleet_id] : []));
  return { sites, fleets };
}

/** Fleets that a grant or the limit names: through one of them a site is seen by its name. */
export const namedFleets = ({ grants, limit }: Grants): string[] => placesOf([...grants.flatMap(({ scopes }) => scopes), ...limit]).fleets;
