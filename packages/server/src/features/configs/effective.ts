import type { JsonValue } from "@roamfleet/protocol";
import type { RobotConfig } from "@roamfleet/protocol/routes";
import type { Db } from "../../kernel/db.ts";
import { badRequest, printable } from "../../kernel/fault.ts";
import { entryBound, openOrgSecrets, type Sealing } from "./data-keys.ts";
import { type EntryRow, listEntriesFor, listPlaces, type RobotPlace } from "./store.ts";

export type EffectiveValue = RobotConfig["effective"][number];

/** Config entries by namespace, and then by key. */
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
  as_of: number | null = null,
): Promise<Map<string, EntryRow[]>> =>
  Map.groupBy(await listEntriesFor(db, org_id, scopesOf(places), namespace, as_of), ({ scope_id }) => scope_id);

/**
 * Returns the values that the next config deployment would give a robot, and where each value is set. Returns [] for an unknown robot. The
 * value of a secret is null.
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

/**
 * The namespace for logins of container registries; its keys are hosts. It never becomes a config file. A robot gets only the login that
 * its image needs, in the message with that image.
 */
export const REGISTRIES_NAMESPACE = "registries";

interface RegistryLogin {
  username: string;
  password: string;
}

const HOST = /^[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?$/;
const TEXT_MAX = 16_384;

/** Throws 400 for an invalid login, or one that is not a secret. The message contains no part of the value. */
export function requireRegistryLogin(namespace: string, key: string, value: JsonValue, secret: boolean): void {
  if (namespace !== REGISTRIES_NAMESPACE) return;
  const of = `in namespace ${REGISTRIES_NAMESPACE}`;
  if (!HOST.test(key)) throw badRequest(`field key must be the host of a registry ${of}, such as ghcr.io, not ${printable(key)}`);
  if (!secret) throw badRequest(`field secret must be true ${of}: its values are passwords`);
  if (readLogin(value) === undefined) throw badRequest(`field value must be {"username": "…", "password": "…"} ${of}`);
}

function readLogin(value: JsonValue): RegistryLogin | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { username, password, ...rest } = value;
  const isText = (text: unknown): text is string => typeof text === "string" && text !== "" && text.length <= TEXT_MAX;
  return isText(username) && isText(password) && Object.keys(rest).length === 0 ? { username, password } : undefined;
}

/** Returns the effective logins of each of these robots, by host in lower case. Throws 503 if the server cannot decrypt a login. */
export async function registryLogins(
  db: Db,
  plane: Pick<Sealing, "secrets">,
  org_id: string,
  robot_ids: readonly string[],
): Promise<Map<string, Map<string, RegistryLogin>>> {
  const logins = new Map<string, Map<string, RegistryLogin>>();
  const places = await listPlaces(db, org_id, robot_ids);
  const by_scope = await readEntries(db, org_id, places, REGISTRIES_NAMESPACE);
  if (by_scope.size === 0) return logins;
  const secrets = await openOrgSecrets(db, plane, org_id);
  const opened = new Map<string, RegistryLogin | undefined>();
  for (const place of places) {
    const own = new Map<string, RegistryLogin>();
    for (const [host, { id, version, sealed }] of resolve(by_scope, place).get(REGISTRIES_NAMESPACE) ?? []) {
      if (sealed === null) continue;
      if (!opened.has(id)) opened.set(id, readLogin(JSON.parse(secrets.open(sealed, entryBound(id, version))) as JsonValue));
      const login = opened.get(id);
      if (login !== undefined) own.set(host.toLowerCase(), login);
    }
    logins.set(place.id, own);
  }
  return logins;
}
