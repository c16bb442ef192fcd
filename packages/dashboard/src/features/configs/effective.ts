import type { ConfigEntry, RobotConfig } from "@roamfleet/protocol/routes";

/** A value that counts somewhere, and where it is set. */
export type EffectiveValue = RobotConfig["effective"][number];

/**
 * The values that count, of the entries of each scope from the widest (the org) to the narrowest: the narrowest counts, key by
 * key. The same rule by which the server makes the files of a robot. Sorted by namespace and key.
 */
export function effectiveOf(levels: readonly (readonly ConfigEntry[])[]): EffectiveValue[] {
  const counting = new Map<string, EffectiveValue>();
  for (const entries of levels)
    for (const { id: config_id, namespace, key, value, secret, scope, scope_id, version } of entries)
      counting.set(JSON.stringify([namespace, key]), { namespace, key, value, secret, scope, scope_id, config_id, version });
  return [...counting.values()].toSorted(byName);
}

/** By namespace, then by key, as files and their keys are sorted. */
export const byName = (a: EffectiveValue, b: EffectiveValue): number => compare(a.namespace, b.namespace) || compare(a.key, b.key);

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Those of a namespace, and whose key or value has a text, in any case. Secrets are found by their keys only. */
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

/** A value in one line. Of a secret nobody is told. */
export const valueLine = ({ value, secret }: Pick<EffectiveValue, "value" | "secret">): string =>
  secret ? "(secret)" : JSON.stringify(value);
