import { hash } from "node:crypto";
import { type Role, roleAtLeast, ROLES } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Fault, forbidden } from "./fault.ts";
import { identifier, list, sql, type Statement } from "./sql.ts";
import type { WebSession } from "./web-session.ts";

/** A secret that proves an identity. */
export interface Proof {
  by: "token" | "session";
  secret: string;
}

/** A proof of identity without its secret, for checking later whether it is still valid. */
export interface HashedProof {
  by: Proof["by"];
  /** SHA-256 of the secret. */
  hash: Buffer;
}

/** Returns the hash by which a secret is stored and found. Secrets are 32 random bytes, so a fast hash resists brute force. */
export const secretHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

export const hashProof = ({ by, secret }: Proof): HashedProof => ({ by, hash: secretHash(secret) });

/**
 * A part of an org to which a role is limited: a site with everything in it, or one fleet. A scope with both ids or neither contains
 * nothing.
 */
export interface Scope {
  site_id?: string;
  fleet_id?: string;
}

/** Places that a role is limited to. Empty means the whole org. */
export type Scopes = readonly Scope[];

export interface Grant {
  role: Role;
  scopes: Scopes;
}

/** The authenticated caller: a portal token, resolved to one org. */
export interface Caller {
  org_id: string;
  /** The highest role of the grants. The role does not apply everywhere if grants have scopes: use `roleOn`. */
  role: Role;
  /** The user's grants in the org, each limited to the token's own role. */
  grants: readonly Grant[];
  /** Scopes that the token was limited to when it was created. The caller has no rights outside of them. */
  limit: Scopes;
  actor: Actor;
  token_id: string;
  /** Set if the caller used a session cookie instead of a token. */
  session?: WebSession;
  /** Every org that the token may access. */
  orgs: readonly { org_id: string; role: Role; is_default: boolean }[];
}

/** A robot that signed its request. */
export interface RobotCaller {
  org_id: string;
  robot_id: string;
  /** Fingerprint of the signing key. Replacing the robot changes the fingerprint. */
  key_fingerprint: string;
}

export const SYSTEM: Actor = { type: "system", id: null, name: null };

export const robotActor = (robot_id: string): Actor => ({ type: "robot", id: robot_id, name: null });

export function requireRole(caller: Caller, needed: Role): void {
  if (!roleAtLeast(caller.role, needed)) throw forbidden(`this needs the role ${needed}; the token has ${caller.role}`);
}

/** The location of an object. An object without a fleet belongs to the site. An object without both belongs to the whole org. */
export interface Place {
  site_id: string | null;
  fleet_id: string | null;
}

export const WHOLE_ORG: Place = { site_id: null, fleet_id: null };

type Grants = Pick<Caller, "grants" | "limit">;

/** Returns the highest of the roles; undefined if there is none. */
export const highestRole = (roles: readonly Role[]): Role | undefined => ROLES.findLast((role) => roles.includes(role));

export const lowerRole = (a: Role, b: Role): Role => (roleAtLeast(a, b) ? b : a);

/** Returns whether one of the scopes contains the place. An empty list contains everything. */
const contains = (scopes: Scopes, { site_id, fleet_id }: Place): boolean =>
  scopes.length === 0 ||
  scopes.some((scope) =>
    scope.site_id === undefined
      ? scope.fleet_id !== undefined && scope.fleet_id === fleet_id
      : scope.fleet_id === undefined && scope.site_id === site_id,
  );

/**
 * Returns the highest role among the grants that contain the place. Undefined if there is none, or if the token's limit excludes the place.
 */
export function roleOn({ grants, limit }: Grants, place: Place): Role | undefined {
  if (!contains(limit, place)) return undefined;
  return highestRole(grants.filter(({ scopes }) => contains(scopes, place)).map(({ role }) => role));
}

/** Throws the error of `missing` if there is no role, and 403 if the role is too low. */
export function requireReached(role: Role | undefined, needed: Role, missing: () => Fault): void {
  if (role === undefined) throw missing();
  if (!roleAtLeast(role, needed)) throw forbidden(`this needs the role ${needed}; the token has ${role} for this object`);
}

export const mayInWholeOrg = (caller: Grants, needed: Role): boolean => {
  const role = roleOn(caller, WHOLE_ORG);
  return role !== undefined && roleAtLeast(role, needed);
};

/** Throws 403 unless the role applies to the whole org. */
export function requireInWholeOrg(caller: Caller, needed: Role): void {
  requireRole(caller, needed);
  if (!mayInWholeOrg(caller, needed))
    throw forbidden(`this needs the role ${needed} in the whole org; the token has it only for some sites or fleets`);
}

const EVERYTHING = sql``;

/**
 * Returns ` and …` for the end of a where clause: it selects the rows that the caller may see, by these columns of site and fleet. Empty if
 * the caller sees the whole org. A null `fleet_column` means that the rows belong to no fleet.
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

/** Returns whether the caller sees the whole org. `visible` is then empty. */
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

/** Returns the fleets that the grants and the limit name. A caller that sees one of them sees the name of its site. */
export const namedFleets = ({ grants, limit }: Grants): string[] => placesOf([...grants.flatMap(({ scopes }) => scopes), ...limit]).fleets;
