import { type AccessRow, type ObjectField, type ObjectKind, type Role, roleAtLeast } from "@roamfleet/protocol";
import { type Caller, mayInWholeOrg, namedFleets, type Place, requireInWholeOrg, requireReached, requireRole, roleOn } from "./caller.ts";
import type { Db } from "./db.ts";
import { badRequest, notFound } from "./fault.ts";

export type PlacedKind = Exclude<ObjectKind, "target" | "selector" | "config_scope">;

/** The location of an object, and which callers without a role at that location may see it. */
export interface Found {
  place: Place;
  /** True if every member of the org may see the object. */
  shared: boolean;
  /** Only for a site: the requested fleets that belong to it. A caller that sees one of them also sees the site's name. */
  fleets: readonly string[];
}

/** Returns the locations of an org's objects. Objects that the org does not have are missing from the result. */
export type FindPlaces = (
  db: Db,
  org_id: string,
  kind: PlacedKind,
  ids: readonly string[],
  fleets: readonly string[],
) => Promise<ReadonlyMap<string, Found>>;

export interface AskedObjects {
  params: unknown;
  query: unknown;
  body: unknown;
}

/**
 * Throws unless the caller has the role that `row` requires on every object that the request names. Callers with that role in the whole org
 * are accepted without a database query. Requests for lists are not checked here: their queries select only rows that the caller may see,
 * with `visible`.
 */
export async function authorize(find: FindPlaces, db: Db, caller: Caller, row: AccessRow, asked: AskedObjects): Promise<void> {
  const needed = row.access as Role;
  requireRole(caller, needed);
  if (row.outside === "allowed" || mayInWholeOrg(caller, needed)) return;
  if (row.outside === "forbidden") return requireInWholeOrg(caller, needed);
  let named = 0;
  for (const field of row.objects) {
    for (const object of readObjects(field, asked)) {
      named += 1;
      if (object === "org") requireInWholeOrg(caller, field.role);
      else await requireObjects(find, db, caller, object.role ?? field.role, object);
    }
  }
  // A request that names no object is refused, because there is no object on which to check the role.
  if (named === 0 && row.outside === "not_found")
    throw badRequest(`one of ${row.objects.map(({ field }) => field).join(", ")} is required`);
}

interface NamedObjects {
  ids: readonly string[];
  /** Kinds of object that the ids may belong to. */
  kinds: readonly PlacedKind[];
  /** The role that the caller needs. Default: the role of the field. */
  role?: Role;
}

/** Returns the objects of a field, which is one id, or several if a query parameter is repeated. */
function readObjects({ in: place, field, kind }: ObjectField, asked: AskedObjects): (NamedObjects | "org")[] {
  const fields = (asked[place] ?? {}) as Record<string, unknown>;
  if (kind === "selector") return readSelector(fields[field]);
  if (kind === "config_scope" && place === "body" && (fields.scope ?? "org") === "org") return ["org"];
  const ids = [fields[field]].flat().filter((id) => typeof id === "string");
  const kinds = kindsOf(kind, fields);
  return ids.length === 0 || kinds.length === 0 ? [] : [{ ids, kinds }];
}

/**
 * Returns the objects that a selector names. A selector without a site and a fleet may select robots anywhere, so it needs the role in the
 * whole org. Beside a fleet, the site only narrows the selection.
 */
function readSelector(selector: unknown): (NamedObjects | "org")[] {
  if (typeof selector !== "object" || selector === null) return [];
  const { site_id, fleet_id, robot_ids } = selector as Record<string, unknown>;
  const fleet = typeof fleet_id === "string" ? [{ ids: [fleet_id], kinds: ["fleet"] as const }] : [];
  const site =
    typeof site_id === "string"
      ? [{ ids: [site_id], kinds: ["site"] as const, ...(fleet.length === 0 ? {} : { role: "viewer" as const }) }]
      : [];
  if (fleet.length + site.length === 0) return ["org"];
  const robots = Array.isArray(robot_ids) ? robot_ids.filter((id) => typeof id === "string") : [];
  return [...fleet, ...site, { ids: robots, kinds: ["robot"] }];
}

function kindsOf(kind: Exclude<ObjectKind, "selector">, fields: Readonly<Record<string, unknown>>): readonly PlacedKind[] {
  if (kind === "target") return isKind(fields.target_kind, ["robot", "fleet"]) ? [fields.target_kind] : [];
  if (kind !== "config_scope") return [kind];
  if (fields.scope === undefined) return SCOPE_KINDS;
  return isKind(fields.scope, SCOPE_KINDS) ? [fields.scope] : [];
}

const SCOPE_KINDS = ["site", "fleet", "robot"] as const;

const isKind = <K extends PlacedKind>(value: unknown, kinds: readonly K[]): value is K => (kinds as readonly unknown[]).includes(value);

async function requireObjects(find: FindPlaces, db: Db, caller: Caller, needed: Role, { ids, kinds }: NamedObjects): Promise<void> {
  const roles = new Map<string, Role | undefined>(ids.map((id) => [id, undefined]));
  for (const kind of kinds) {
    if (roles.size === 0) return;
    for (const [id, found] of await find(db, caller.org_id, kind, [...roles.keys()], namedFleets(caller))) {
      const role = roleOnFound(caller, found);
      if (role !== undefined && roleAtLeast(role, needed)) roles.delete(id);
      else roles.set(id, role);
    }
  }
  for (const [id, role] of roles) requireReached(role, needed, () => notFound(nounOf(kinds), id));
}

/** Returns the role on an object: the caller's role at its location, else viewer if it is visible from elsewhere, else undefined. */
export function roleOnFound(caller: Caller, { place, shared, fleets }: Found): Role | undefined {
  const role = roleOn(caller, place);
  if (role !== undefined) return role;
  const seen = shared || fleets.some((fleet_id) => roleOn(caller, { ...place, fleet_id }) !== undefined);
  return seen ? "viewer" : undefined;
}

/** Returns the noun for the 404 message. A hidden object gets the same message as a missing one. */
const nounOf = (kinds: readonly PlacedKind[]): string => {
  const nouns = kinds.map((kind) => kind.replaceAll("_", " "));
  return nouns.length === 1 ? (nouns[0] ?? "") : `${nouns.slice(0, -1).join(", ")} or ${nouns.at(-1)}`;
};
