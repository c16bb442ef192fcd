import type { RobotConfig } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { type EntryRow, listEntriesFor, listPlaces, type RobotPlace } from "./store.ts";

export type EffectiveValue = RobotConfig["effective"][number];

/** Entries by namespace and key. */
type Namespaces = Map<string, Map<string, EntryRow>>;

/** Returns the effective entry of each namespace and key. Precedence: org < site < fleet < robot. */
export function resolve(by_scope: ReadonlyMap<string, readonly EntryRow[]>, { site_id, fleet_id, id }: RobotPlace): Namespaces {
  const effective: Namespaces = new Map();
  for (const scope_id of ["", site_id, fleet_id, id]) {
    for (const entry of by_scope.get(scope_id) ?? []) {
      let namespace = effective.get(entry.namespace);
      if (namespace === undefined) effective.set(entry.namespace, (namespace = new Map<string, EntryRow>()));
      namespace.set(entry.key, entry);
    }
  }
  return effective;
}

export const scopesOf = (places: readonly RobotPlace[]): Set<string> =>
  new Set(places.flatMap(({ id, site_id, fleet_id }) => [id, site_id, fleet_id]));

export const readEntries = async (
  db: Db,
  org_id: string,
  places: readonly RobotPlace[],
  namespace: string | null,
): Promise<Map<string, EntryRow[]>> =>
  Map.groupBy(await listEntriesFor(db, org_id, scopesOf(places), namespace), ({ scope_id }) => scope_id);

/**
 * Returns the values that the next config deployment gives a robot, with their origins; [] for an unknown robot. The value of a secret is
 * null.
 */
export async function effectiveConfig(db: Db, org_id: string, robot_id: string, namespace: string | null): Promise<EffectiveValue[]> {
  return (await effectiveEntries(db, org_id, robot_id, namespace)).map(
    ({ id, namespace: of, key, value, sealed, scope, scope_id, version }) => ({
      namespace: of,
      key,
      value,
      secret: sealed !== null,
      scope,
      scope_id: scope_id || null,
      config_id: id,
      version,
    }),
  );
}

/** Returns the effective entries in the order of namespace and key. */
export async function effectiveEntries(db: Db, org_id: string, robot_id: string, namespace: string | null): Promise<EntryRow[]> {
  const places = await listPlaces(db, org_id, [robot_id]);
  const by_scope = await readEntries(db, org_id, places, namespace);
  const entries = places.flatMap((place) => [...resolve(by_scope, place).values()].flatMap((keys) => [...keys.values()]));
  const order = (entry: EntryRow): string => JSON.stringify([entry.namespace, entry.key]);
  return entries.toSorted((a, b) => (order(a) < order(b) ? -1 : 1));
}
