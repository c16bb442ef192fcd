type Fields = Record<string, unknown>;

export interface ValueChange {
  /** Path in the value, such as `limits.speed` or `zones[2]`; empty for the root. */
  path: string;
  /** Undefined: absent. */
  before: unknown;
  after: unknown;
}

const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** Compares two JSON values recursively; arrays of different lengths are reported as one change. */
export function diffValues(before: unknown, after: unknown, path = ""): ValueChange[] {
  if (isFields(before) && isFields(after)) {
    return [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .toSorted()
      .flatMap((name) => diffValues(own(before, name), own(after, name), path === "" ? name : `${path}.${name}`));
  }
  if (Array.isArray(before) && Array.isArray(after) && before.length === after.length)
    return before.flatMap((item: unknown, at) => diffValues(item, after[at], `${path}[${at}]`));
  return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
}

const own = (fields: Fields, name: string): unknown => (Object.hasOwn(fields, name) ? fields[name] : undefined);
