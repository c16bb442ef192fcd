import type { JsonValue } from "@robofleet/protocol";
import type { RobotConfig } from "@robofleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { type ConfigFile, configFile } from "./config-file.ts";
import { type EntryRow, listEntriesFor, listPlaces, type RobotPlace } from "./store.ts";

export type EffectiveValue = RobotConfig["effective"][number];

type Namespaces = Map<string, Map<string, EntryRow>>;

/** The entry that counts for each namespace and key: org < site < fleet < robot. */
function resolve(by_scope: ReadonlyMap<string, readonly EntryRow[]>, { site_id, fleet_id, id }: RobotPlace): Namespaces {
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

async function readEntries(
  db: Db,
  org_id: string,
  places: readonly RobotPlace[],
  namespace: string | null,
): Promise<Map<string, EntryRow[]>> {
  const scope_ids = new Set(places.flatMap(({ id, site_id, fleet_id }) => [id, site_id, fleet_id]));
  return Map.groupBy(await listEntriesFor(db, org_id, scope_ids, namespace), ({ scope_id }) => scope_id);
}

/** What a robot's config is when it is deployed next, value by value with its origin; [] for a robot that is not there. */
export async function effectiveConfig(db: Db, org_id: string, robot_id: string, namespace: string | null): Promise<EffectiveValue[]> {
  const places = await listPlaces(db, org_id, [robot_id]);
  const by_scope = await readEntries(db, org_id, places, namespace);
  const entries = places.flatMap((place) => [...resolve(by_scope, place).values()].flatMap((keys) => [...keys.values()]));
  const order = (entry: EntryRow): string => JSON.stringify([entry.namespace, entry.key]);
  return entries
    .toSorted((a, b) => (order(a) < order(b) ? -1 : 1))
    .map(({ id, namespace: of, key, value, scope, scope_id, version }) => ({
      namespace: of,
      key,
      value,
      scope,
      scope_id: scope_id || null,
      config_id: id,
      version,
    }));
}

/**
 * The config files of many robots in two queries, by robot and namespace: those in which at least one value is set.
 * Robots of one fleet without values of their own share the same file objects.
 */
export async function effectiveFiles(
  db: Db,
  org_id: string,
  robot_ids: readonly string[],
  namespace: string | null,
): Promise<Map<string, Map<string, ConfigFile>>> {
  const places = await listPlaces(db, org_id, robot_ids);
  const by_scope = await readEntries(db, org_id, places, namespace);
  const of_fleet = new Map<string, Map<string, ConfigFile>>();
  const files = new Map<string, Map<string, ConfigFile>>();
  for (const place of places) {
    const shared = by_scope.has(place.id) ? undefined : of_fleet.get(place.fleet_id);
    const own = shared ?? filesOf(resolve(by_scope, place));
    if (!by_scope.has(place.id)) of_fleet.set(place.fleet_id, own);
    files.set(place.id, own);
  }
  return files;
}

const filesOf = (namespaces: Namespaces): Map<string, ConfigFile> =>
  new Map(
    Array.from(namespaces, ([namespace, keys]) => [
      namespace,
      configFile(new Map(Array.from(keys, ([key, { value }]): [string, JsonValue] => [key, value]))),
    ]),
  );
