import type { ConfigDeployment, ConfigEntry, RobotConfig } from "@roamfleet/protocol/routes";
import type { ConfigsSearch } from "../../search.ts";
import { jsonText, shellLine } from "../../ui/format.ts";

export type Scope = ConfigEntry["scope"];
/** A level at which config values are set: the organization, a site, a fleet or a robot. `scope_id` is undefined until one is selected. */
export interface ConfigScope {
  scope: Scope;
  scope_id: string | undefined;
}
export const SCOPES: readonly Scope[] = ["org", "site", "fleet", "robot"];
/** Returns the word for a scope in texts, such as "organization". */
export const scopeName = (scope: Scope): string => (scope === "org" ? "organization" : scope);

/** An effective value and the scope at which it is set. */
export type EffectiveValue = RobotConfig["effective"][number];

/**
 * Merges the entries of all scopes, given from the widest (the organization) to the narrowest: the narrowest wins per key, as in the
 * server's files for robots. Returns the values sorted by namespace and key.
 */
export function effectiveOf(levels: readonly (readonly ConfigEntry[])[]): EffectiveValue[] {
  const counting = new Map<string, EffectiveValue>();
  for (const entries of levels)
    for (const { id: config_id, namespace, key, value, secret, scope, scope_id, version } of entries)
      counting.set(JSON.stringify([namespace, key]), { namespace, key, value, secret, scope, scope_id, config_id, version });
  return [...counting.values()].toSorted(byName);
}

/** Compares two config values by namespace, then by key. */
export const byName = (a: EffectiveValue, b: EffectiveValue): number => compare(a.namespace, b.namespace) || compare(a.key, b.key);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Filters by namespace and by text in the key or value, case-insensitively. Secrets match by key only. */
export function filterValues(
  values: readonly EffectiveValue[],
  { namespace, q }: Pick<ConfigsSearch, "namespace" | "q">,
): EffectiveValue[] {
  const text = q?.toLowerCase();
  return values.filter(
    (value) =>
      (namespace === undefined || value.namespace === namespace) &&
      (text === undefined ||
        value.key.toLowerCase().includes(text) ||
        (!value.secret && JSON.stringify(value.value).toLowerCase().includes(text))),
  );
}

/** Whether a value is set at this scope and not inherited from a wider one. */
export const isOwn = (value: EffectiveValue, { scope, scope_id }: ConfigScope): boolean =>
  value.scope === scope && (scope === "org" || value.scope_id === scope_id);

/** Formats a value on one line; hides secrets. */
export const valueLine = ({ value, secret }: Pick<EffectiveValue, "value" | "secret">): string =>
  secret ? "(secret)" : JSON.stringify(value);

type Entry = Pick<ConfigEntry, "namespace" | "scope" | "scope_id" | "updated_at" | "removed_at">;
type Deployed = Pick<ConfigDeployment, "fleet_id" | "namespace" | "status" | "created_at"> & {
  counts: Pick<ConfigDeployment["counts"], "applied" | "cancelled">;
};
interface Fleet {
  id: string;
  site_id: string;
  robot_count: number;
}

const UNDONE: ReadonlySet<string> = new Set(["failed", "rolled_back", "cancelled"]);

/**
 * Whether a config deployment counts as sent to all its robots. A deployment counts unless it failed, was rolled back or was cancelled. It
 * also counts if some robots applied it and no robot was cancelled, because the failed robots are shown as failed.
 */
const wasSent = ({ status, counts }: Deployed): boolean => !UNDONE.has(status) || (counts.applied > 0 && counts.cancelled === 0);

/**
 * Returns the fleets that a changed value applies to and that had no config deployment since the change. `deployments` must contain all
 * deployments since `complete_since_ms`; changes before that time count as deployed. Values of single robots apply to no fleet.
 */
export function pendingFleets<F extends Fleet>(
  { namespace, scope, scope_id, updated_at, removed_at }: Entry,
  fleets: readonly F[],
  deployments: readonly Deployed[],
  complete_since_ms: number,
): F[] {
  const changed_ms = Math.max(Date.parse(updated_at), removed_at === null ? 0 : Date.parse(removed_at));
  if (scope === "robot" || changed_ms < complete_since_ms) return [];
  const done = new Set(
    deployments
      .filter((one) => wasSent(one) && (one.namespace === null || one.namespace === namespace))
      .filter(({ created_at }) => Date.parse(created_at) >= changed_ms)
      .map(({ fleet_id }) => fleet_id),
  );
  return fleets.filter(
    ({ id, site_id, robot_count }) =>
      robot_count > 0 && !done.has(id) && (scope === "org" || (scope === "site" ? site_id === scope_id : id === scope_id)),
  );
}

/** A marker that occurs in no value. `wrongLine` inserts it into the value and returns the line that contains it. */
const MARK = "\u0001here\u0001";

/**
 * Returns the line (from 1) of the indented value that an error of the server is about, such as `value limits.speed must be <= 3
 * (schema of namespace nav)`; undefined if the error names no part of the value.
 */
export function wrongLine(value: unknown, key: string, message: string): number | undefined {
  const said = /^value (.+?) (?:must|is|should|does|has|contains|needs) /.exec(message)?.[1];
  if (said === undefined || !said.startsWith(`${key}.`)) return undefined;
  const marked = withMark(value, said.slice(key.length + 1));
  if (marked === undefined) return undefined;
  const at = jsonText(marked)
    .split("\n")
    .findIndex((line) => line.includes(JSON.stringify(MARK)));
  return at === -1 ? undefined : at + 1;
}

/** Replaces a part of the value with the marker. Keys may contain dots, so the longest existing key matches. */
function withMark(value: unknown, path: string): unknown {
  if (path === "") return MARK;
  if (typeof value !== "object" || value === null) return undefined;
  const parts = path.split(".");
  for (let taken = parts.length; taken > 0; taken -= 1) {
    const name = parts.slice(0, taken).join(".");
    if (!Object.hasOwn(value, name)) continue;
    const inner = withMark((value as Record<string, unknown>)[name], parts.slice(taken).join("."));
    if (inner === undefined) continue;
    if (Array.isArray(value)) return value.map((item: unknown, at) => (String(at) === name ? inner : item));
    return Object.fromEntries(Object.entries(value).map(([each, part]) => [each, each === name ? inner : part]));
  }
  return undefined;
}

interface ValuePlace {
  namespace: string;
  key: string;
  scope: Scope;
  scope_id: string | null | undefined;
}

const at = ({ namespace, scope, scope_id }: Omit<ValuePlace, "key">): string[] => [
  ...(namespace === "default" ? [] : ["--namespace", namespace]),
  ...(scope === "org" ? [] : [`--${scope}`, scope_id ?? "ID"]),
];

/** Maximum characters of a value in the `rf` command. For a longer value, the command reads a file. */
const VALUE_CHARACTERS_MAX = 200;

/** Returns the `rf` command that, like the page, sets a value without deploying it. */
export function setLine(place: ValuePlace, value: string | undefined, secret: boolean): string {
  const deploys = place.scope === "fleet" || place.scope === "robot";
  const is_short = value !== undefined && value.length <= VALUE_CHARACTERS_MAX;
  const given = secret ? ["--secret"] : is_short ? (value.startsWith("-") ? [] : [value]) : ["--from-file", "value.json"];
  const last = !secret && is_short && value.startsWith("-") ? ["--", value] : [];
  return shellLine("rf", "configs", "set", place.key, ...given, ...at(place), deploys && "--no-deploy", ...last);
}

export const unsetLine = (place: ValuePlace): string => shellLine("rf", "configs", "unset", place.key, ...at(place));
export const historyLine = (place: ValuePlace): string => shellLine("rf", "configs", "history", place.key, ...at(place));
export const rollbackLine = (place: ValuePlace, version: number): string =>
  shellLine("rf", "configs", "rollback", place.key, "--to", String(version), ...at(place));

/** Returns the command that deploys to a robot, a fleet or the robots of a site. A deployment to the whole organization needs another place. */
export const deployLine = ({ scope, scope_id }: ConfigScope, namespace?: string): string =>
  shellLine("rf", "configs", "deploy", `--${scope === "org" ? "fleet" : scope}`, scope_id ?? "FLEET", { namespace, watch: true });

/** Returns the command that lists the values of a scope. */
export const viewLine = ({ scope, scope_id }: ConfigScope): string =>
  scope === "robot" && scope_id !== undefined ? shellLine("rf", "configs", "effective", "--robot", scope_id) : "rf configs list";
