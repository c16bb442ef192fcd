import { type Reason, roleAtLeast } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, type Grant, lowerRole, mayInWholeOrg, type Place, roleOn, type Scopes, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { sql, type Statement } from "../../kernel/sql.ts";
import { shareCredentials, shareMemberships } from "./store.ts";

/**
 * Identifies the user, token or fleet whose permissions apply when a stored object runs later, for example a scheduled deployment. A
 * user_id may come with the id of the token that the user used. A fleet_id is the fleet that a robot follows. An empty object means the
 * system, whose permissions are unlimited.
 */
export interface Authority {
  user_id?: string;
  token_id?: string;
  fleet_id?: string;
}

/** Returns the authority of the caller of a request, to store it with an object that runs later. */
export const authorityOf = ({ actor, token_id }: Pick<Caller, "actor" | "token_id">): Authority =>
  actor.type === "user" && actor.id !== null ? { user_id: actor.id, token_id } : { token_id };

/** The reason why an authority is no longer valid. */
type AuthorityDenial = Extract<Reason, "scope_lost" | "creator_removed">;

interface Authorized {
  authority: Authority | null;
  created_by: Actor | null;
}

/** Returns the stored authority, or derives it from `created_by` for rows written before authorities were stored. */
function storedAuthority({ authority, created_by }: Authorized): Authority {
  if (authority !== null) return authority;
  if (created_by?.id == null) return {};
  if (created_by.type === "user") return { user_id: created_by.id };
  return created_by.type === "org_token" ? { token_id: created_by.id } : {};
}

/** The current permissions of an authority. */
type Standing = "removed" | "unlimited" | { fleet_id: string } | { grants: Grant[]; limit: Scopes };

/**
 * Reads the current permissions of the authorities of these rows. Inside a transaction, also locks the permissions: the removal or demotion
 * of a user and the revocation of a token wait until the transaction ends. So no work with these permissions starts after such a change has
 * been committed.
 */
export async function readAuthorities(tx: Db, org_id: string, rows: readonly Authorized[]): Promise<Authorities> {
  const stored = rows.map(storedAuthority);
  const user_ids = [...new Set(stored.flatMap(({ user_id }) => user_id ?? []))];
  const token_ids = [...new Set(stored.flatMap(({ token_id }) => token_id ?? []))];
  // Sent without waiting in between, and locked in this order.
  const [memberships, tokens] = await Promise.all([
    user_ids.length === 0 ? [] : shareMemberships(tx, org_id, user_ids),
    token_ids.length === 0 ? [] : shareCredentials(tx, org_id, token_ids),
  ]);
  return new Authorities(
    Map.groupBy(memberships, ({ user_id }) => user_id),
    new Map(tokens.map((token) => [token.id, token])),
  );
}

type Memberships = Awaited<ReturnType<typeof shareMemberships>>;
type Credentials = Awaited<ReturnType<typeof shareCredentials>>;

/** A snapshot of the permissions of the authorities of some rows. */
export class Authorities {
  readonly #memberships: ReadonlyMap<string, Memberships>;
  readonly #credentials: ReadonlyMap<string, Credentials[number]>;

  constructor(memberships: ReadonlyMap<string, Memberships>, credentials: ReadonlyMap<string, Credentials[number]>) {
    this.#memberships = memberships;
    this.#credentials = credentials;
  }

  /**
   * Returns why the row's authority is not an operator of a site and fleet (`place`). Null if it is an operator. Without a place, because
   * the object does not exist, checks only whether the creator was removed.
   */
  denialAt(row: Authorized, place: Place | undefined): AuthorityDenial | null {
    const standing = this.#standingOf(storedAuthority(row));
    if (standing === "removed") return "creator_removed";
    if (place === undefined || standing === "unlimited") return null;
    if ("fleet_id" in standing) return standing.fleet_id === place.fleet_id ? null : "scope_lost";
    const role = roleOn(standing, place);
    return role !== undefined && roleAtLeast(role, "operator") ? null : "scope_lost";
  }

  /** Whether the row's authority is an admin of the whole org. */
  isOrgAdmin(row: Authorized): boolean {
    const standing = this.#standingOf(storedAuthority(row));
    if (standing === "unlimited") return true;
    return standing !== "removed" && "grants" in standing && mayInWholeOrg(standing, "admin");
  }

  /**
   * Returns an SQL condition `and …` that selects the sites and fleets of which the row's authority is not an operator. Undefined if it is
   * an operator everywhere.
   */
  deniedPlaces(row: Authorized, site_column: string, fleet_column: string): Statement<unknown> | undefined {
    const standing = this.#standingOf(storedAuthority(row));
    if (standing === "removed") return sql``;
    if (standing === "unlimited") return undefined;
    const reached =
      "fleet_id" in standing
        ? visible({ grants: [{ role: "operator", scopes: [standing] }], limit: [] }, site_column, fleet_column)
        : visible(
            { grants: standing.grants.filter(({ role }) => roleAtLeast(role, "operator")), limit: standing.limit },
            site_column,
            fleet_column,
          );
    return sql`and not (true ${reached})`;
  }

  /**
   * Returns the current permissions of an authority. A revoked token has none. An expired token keeps its permissions, because the expiry
   * was known when the object was created.
   */
  #standingOf({ user_id, token_id, fleet_id }: Authority): Standing {
    if (fleet_id !== undefined) return { fleet_id };
    const token = token_id === undefined ? undefined : this.#credentials.get(token_id);
    if (token?.revoked === true) return "removed";
    if (user_id === undefined) {
      if (token_id === undefined) return "unlimited";
      return token === undefined ? "removed" : { grants: [token], limit: [] };
    }
    const memberships = this.#memberships.get(user_id);
    if (memberships === undefined) return "removed";
    // The token of a user may belong to another org; this lookup searches only one org. Then only the user's memberships limit the
    // permissions.
    if (token === undefined) return { grants: memberships, limit: [] };
    return { grants: memberships.map(({ role, scopes }) => ({ role: lowerRole(role, token.role), scopes })), limit: token.scopes };
  }
}

export { findPlaces } from "./store.ts";
