import type { Grant, Token, User } from "@roamfleet/protocol/routes";
import type { Role } from "../../api/session.ts";
import { type Flags, shellLine } from "../../ui/format.ts";

export type Scopes = Grant["scopes"];
export type { Grant };

/** Descriptions of the roles. */
export const ROLE_WORDS: Record<Role, string> = {
  viewer: "can view everything except secrets and artifact contents",
  operator: "can also deploy, set configs, change sites, fleets and robots, create enrollment keys, and open shells and cameras",
  admin: "can also delete, set secrets, manage users, tokens and settings, and view the audit log",
};

export const ROLES = ["viewer", "operator", "admin"] as const;

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
 * Whether the user is the last admin of the whole organization, so that they must stay admin. The server enforces this; the page only
 * explains it in advance. Returns false while the lists are loading.
 */
export function isLastAdmin(user: Pick<User, "id" | "grants">, users: readonly User[], tokens: readonly Token[]): boolean {
  if (!administers(user)) return false;
  if (users.some((other) => other.id !== user.id && administers(other))) return false;
  return !tokens.some(
    ({ user_id, role, scopes, status }) => user_id === null && role === "admin" && scopes.length === 0 && status === "active",
  );
}

/** Roles that no grant has yet. A user has each role at most once. */
export const freeRoles = (grants: readonly Grant[]): Role[] => ROLES.filter((role) => !grants.some((grant) => grant.role === role));

const places = (scopes: Scopes): Flags => ({
  fleet: scopes.flatMap(({ fleet_id }) => fleet_id ?? []),
  site: scopes.flatMap(({ site_id }) => site_id ?? []),
});

/** The `rf` commands equivalent to the actions on users and tokens. */
export const userLines = {
  list: "rf users list",
  show: (id: string) => shellLine("rf", "users", "show", id),
  create: (email: string, name: string, { role, scopes }: Grant) =>
    shellLine("rf", "users", "create", email || "EMAIL", { name: name || "NAME", role, ...places(scopes) }),
  /** Returns the command that changes a user. For a user with several roles it is `rf api`, which sends all roles. */
  change: (id: string, name: string | undefined, grants: readonly Grant[]) => {
    const [only, ...more] = grants;
    if (only === undefined || more.length > 0) {
      const named = name === undefined ? [] : ["-f", `name=${name}`];
      return shellLine("rf", "api", "PATCH", `/api/users/${id}`, ...named, "-F", `grants=${JSON.stringify(grants)}`);
    }
    const { role, scopes } = only;
    return shellLine("rf", "users", "update", id, { name, role, "whole-org": scopes.length === 0, ...places(scopes) });
  },
  remove: (id: string) => shellLine("rf", "users", "remove", id),
};

interface TokenLine {
  label: string;
  role: string;
  scopes: Scopes;
  user_id: string | undefined;
  expires_in_hours: number;
}

export const tokenLines = {
  list: "rf tokens list",
  show: (id: string) => shellLine("rf", "tokens", "show", id),
  create: ({ label, role, scopes, user_id, expires_in_hours: hours }: TokenLine) =>
    shellLine("rf", "tokens", "create", label || "LABEL", {
      role,
      ...places(scopes),
      user: user_id,
      "expires-in-hours": hours === 0 ? undefined : hours,
    }),
  rotate: (id: string, seconds: number) =>
    shellLine("rf", "tokens", "rotate", id, { "overlap-seconds": seconds === 0 ? undefined : seconds }),
  revoke: (id: string) => shellLine("rf", "tokens", "revoke", id),
};
