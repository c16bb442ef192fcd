import type { ConfigEntry, RobotConfig } from "@roamfleet/protocol/routes";

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

/** Compares by namespace, then by key. */
export const byName = (a: EffectiveValue, b: EffectiveValue): number => compare(a.namespace, b.namespace) || compare(a.key, b.key);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Filters by namespace and by text in the key or value, case-insensitively. Secrets match by key only. */
export function filterValues(values: readonly EffectiveValue[], { namespace, q }: { namespace?: string; q?: string }): EffectiveValue[] {
  const text = q?.toLowerCase();
  return values.filter(
    (value) =>
      (namespace === undefined || value.namespace === namespace) &&
      (text === undefined ||
        value.key.toLowerCase().includes(text) ||
        (!value.secret && JSON.stringify(value.value).toLowerCase().includes(text))),
  );
}

/** Formats a value on one line; hides secrets. */
export const valueLine = ({ value, secret }: Pick<EffectiveValue, "value" | "secret">): string =>
  secret ? "(secret)" : JSON.stringify(value);
