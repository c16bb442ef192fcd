import type { Grant, Token, User } from "@roamfleet/protocol/routes";
import type { Role } from "../../api/session.ts";

export type Scopes = Grant["scopes"];
export type { Grant };

/** Descriptions of the roles. */
export const ROLE_WORDS: Record<Role, string> = {
  viewer: "can view everything except secrets and artifact contents",
  operator: "can also deploy, set configs, change sites, fleets and robots, create enrollment keys, and open shells and cameras",
  admin: "can also delete, set secrets, manage users, tokens and settings, and view the audit log",
};

export const ROLE_OPTIONS = (["viewer", "operator", "admin"] as const).map((value) => ({ value, label: value }));

/** Describes the scope of a role by names; uses the ID of objects that the user cannot see. */
export function scopeWords(scopes: Scopes, sites: ReadonlyMap<string, string>, fleets: ReadonlyMap<string, string>): string {
  if (scopes.length === 0) return "whole organization";
  return scopes
    .map(({ site_id, fleet_id }) =>
      fleet_id !== undefined ? `fleet ${fleets.get(fleet_id) ?? fleet_id}` : `site ${sites.get(site_id ?? "") ?? site_id}`,
    )
    .join(", ");
}

const administers = ({ grants }: Pick<User, "grants">): boolean =>
  grants.some(({ role, scopes }) => role === "admin" && scopes.length === 0);

/**
 * Whether the user is the last admin of the whole organization. The server enforces this; the page only explains it in advance. While
 * the lists are loading, returns false.
 */
export function isLastAdmin(user: Pick<User, "id" | "grants">, users: readonly User[], tokens: readonly Token[]): boolean {
  if (!administers(user)) return false;
  if (users.some((other) => other.id !== user.id && administers(other))) return false;
  return !tokens.some(
    ({ user_id, role, scopes, status }) => user_id === null && role === "admin" && scopes.length === 0 && status === "active",
  );
}

/** Roles that no grant has yet. A user has each role at most once. */
export const freeRoles = (grants: readonly Grant[]): Role[] =>
  (["viewer", "operator", "admin"] as const).filter((role) => !grants.some((grant) => grant.role === role));
