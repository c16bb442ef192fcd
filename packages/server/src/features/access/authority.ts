import { type Reason, roleAtLeast } from "@roamfleet/protocol";
import type { Actor } from "@roamfleet/protocol/routes";
import { type Caller, type Grant, lowerRole, mayInWholeOrg, type Place, roleOn, type Scopes, visible } from "../../kernel/caller.ts";
import type { Db } from "../../kernel/db.ts";
import { sql, type Statement } from "../../kernel/sql.ts";
import { shareCredentials, shareMemberships } from "./store-authority.ts";

/**
 * On whose authority something acts later than it was asked for: a user by a token, a token of the org, or the fleet that a
 * robot follows. Empty: the system's own.
 */
export interface Authority {
  user_id?: string;
  token_id?: string;
  fleet_id?: string;
}

/** The authority of who makes a request, to be stored with what acts later. */
export const authorityOf = ({ actor, token_id }: Pick<Caller, "actor" | "token_id">): Authority =>
  actor.type === "user" && actor.id !== null ? { user_id: actor.id, token_id } : { token_id };

/** Why an authority does not hold any more. */
export type AuthorityDenial = Extract<Reason, "scope_lost" | "creator_removed">;

interface Authorized {
  authority: Authority | null;
  created_by: Actor | null;
}

/** What is stored, else what `created_by` shows: rows of before the authority was stored. */
function storedAuthority({ authority, created_by }: Authorized): Authority {
  if (authority !== null) return authority;
  if (created_by?.id == null) return {};
  if (created_by.type === "user") return { user_id: created_by.id };
  return created_by.type === "org_token" ? { token_id: created_by.id } : {};
}

/** What an authority may do at present. */
type Standing = "removed" | "unlimited" | { fleet_id: string } | { grants: Grant[]; limit: Scopes };

/**
 * Reads what the authorities of these rows may do at present. Inside a transaction nobody removes, demotes or revokes them
 * until it ends, so that nothing is begun after such a change was answered.
 */
export async function readAuthorities(tx: Db, org_id: string, rows: readonly Authorized[]): Promise<Authorities> {
  const stored = rows.map(storedAuthority);
  const user_ids = [...new Set(stored.flatMap(({ user_id }) => user_id ?? []))];
  const token_ids = [...new Set(stored.flatMap(({ token_id }) => token_id ?? []))];
  return new Authorities(
    Map.groupBy(user_ids.length === 0 ? [] : await shareMemberships(tx, org_id, user_ids), ({ user_id }) => user_id),
    new Map((token_ids.length === 0 ? [] : await shareCredentials(tx, org_id, token_ids)).map((token) => [token.id, token])),
  );
}

type Memberships = Awaited<ReturnType<typeof shareMemberships>>;
type Credentials = Awaited<ReturnType<typeof shareCredentials>>;

/** The authorities of some rows, as of one moment. */
class Authorities {
  readonly #memberships: ReadonlyMap<string, Memberships>;
  readonly #credentials: ReadonlyMap<string, Credentials[number]>;

  constructor(memberships: ReadonlyMap<string, Memberships>, credentials: ReadonlyMap<string, Credentials[number]>) {
    this.#memberships = memberships;
    this.#credentials = credentials;
  }

  /** Why the row's authority does not reach the place; null: it does, or there is no such place. */
  denialAt(row: Authorized, place: Place | undefined): AuthorityDenial | null {
    const standing = this.#standingOf(storedAuthority(row));
    if (standing === "removed") return "creator_removed";
    if (place === undefined || standing === "unlimited") return null;
    if ("fleet_id" in standing) return standing.fleet_id === place.fleet_id ? null : "scope_lost";
    const role = roleOn(standing, place);
    return role !== undefined && roleAtLeast(role, "operator") ? null : "scope_lost";
  }

  /** Whether the row's authority administers the whole org. */
  isOrgAdmin(row: Authorized): boolean {
    const standing = this.#standingOf(storedAuthority(row));
    if (standing === "unlimited") return true;
    return standing !== "removed" && "grants" in standing && mayInWholeOrg(standing, "admin");
  }

  /** The same as a condition ` and …` that is true of the places that the authority does not reach; undefined when it reaches all. */
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

  /** The expiry of a token bounds the use of its secret and is known in advance: only its revocation ends what it began. */
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
    // A token of another org, which opens this one too, is not seen here: the membership alone decides.
    if (token === undefined) return { grants: memberships, limit: [] };
    return { grants: memberships.map(({ role, scopes }) => ({ role: lowerRole(role, token.role), scopes })), limit: token.scopes };
  }
}
