/** Returns the path of a field: names separated by dots, indexes in brackets, as in `rf robots topics echo --field`. */
export function childPath(parent: string, key: string | number): string {
  if (typeof key === "number") return `${parent}[${key}]`;
  return parent === "" ? key : `${parent}.${key}`;
}

/** Parses `a.b[0].c` to ["a", "b", 0, "c"]; undefined for invalid paths. */
export function pathSteps(path: string): (string | number)[] | undefined {
  if (!/^[^.[\]]*(?:\[\d+\]|\.[^.[\]]+)*$/.test(path) || path === "") return undefined;
  return path.split(/\.|(?=\[)/).flatMap((part): (string | number)[] => {
    const place = /^\[(\d+)\]$/.exec(part);
    return place !== null ? [Number(place[1])] : part === "" ? [] : [part];
  });
}

/** Returns the number at a path of a message; undefined if there is none. true is 1, false is 0. */
export function numberAt(message: unknown, path: string): number | undefined {
  let value = message;
  for (const step of pathSteps(path) ?? []) {
    if (typeof value !== "object" || value === null) return undefined;
    // Summarized lists contain only their first elements.
    const first = (value as Record<string, unknown>)["first"];
    const holder = typeof step === "number" && !Array.isArray(value) && Array.isArray(first) ? first : value;
    if (!Object.hasOwn(holder, step)) return undefined;
    value = (holder as Record<string | number, unknown>)[step];
  }
  if (typeof value === "boolean") return value ? 1 : 0;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
