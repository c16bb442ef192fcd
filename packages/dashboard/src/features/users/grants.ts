import type { Grant, Token, User } from "@roamfleet/protocol/routes";
import type { Role } from "../../api/session.ts";

export type Scopes = Grant["scopes"];
export type { Grant };

/** Each role in one sentence. */
export const ROLE_WORDS: Record<Role, string> = {
  viewer: "reads everything but secrets and the bytes of artifacts",
  operator: "also deploys, sets configs, changes sites, fleets and robots, makes enrolment keys, opens shells and cameras",
  admin: "also deletes, sets secrets, and manages users, tokens, settings and the audit",
};

export const ROLE_OPTIONS = (["viewer", "operator", "admin"] as const).map((value) => ({ value, label: value }));

/** Where a role holds, in words. Names by id; who may not see a place sees its id. */
export function scopeWords(scopes: Scopes, sites: ReadonlyMap<string, string>, fleets: ReadonlyMap<string, string>): string {
  if (scopes.length === 0) return "the whole org";
  return scopes
    .map(({ site_id, fleet_id }) =>
      fleet_id !== undefined ? `fleet ${fleets.get(fleet_id) ?? fleet_id}` : `site ${sites.get(site_id ?? "") ?? site_id}`,
    )
    .join(", ");
}

const administers = ({ grants }: Pick<User, "grants">): boolean =>
  grants.some(({ role, scopes }) => role === "admin" && scopes.length === 0);

/**
 * Whether the org would have nobody who administers all of it without this user. The server decides, and refuses; the page
 * says it before somebody tries. Lists that were not read yet protect nobody.
 */
export function isLastAdmin(user: Pick<User, "id" | "grants">, users: readonly User[], tokens: readonly Token[]): boolean {
  if (!administers(user)) return false;
  if (users.some((other) => other.id !== user.id && administers(other))) return false;
  return !tokens.some(
    ({ user_id, role, scopes, status }) => user_id === null && role === "admin" && scopes.length === 0 && status === "active",
  );
}

/** Roles that no grant has yet: a user has each of them once at most. */
export const freeRoles = (grants: readonly Grant[]): Role[] =>
  (["viewer", "operator", "admin"] as const).filter((role) => !grants.some((grant) => grant.role === role));
