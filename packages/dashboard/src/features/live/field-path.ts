/** A part of a message: names with dots between them, places of lists in brackets, as `rf robots topics echo --field` takes it. */
export function childPath(parent: string, key: string | number): string {
  if (typeof key === "number") return `${parent}[${key}]`;
  return parent === "" ? key : `${parent}.${key}`;
}

/** `a.b[0].c` → ["a", "b", 0, "c"]; undefined for what is no path. */
export function pathSteps(path: string): (string | number)[] | undefined {
  if (!/^[^.[\]]*(?:\[\d+\]|\.[^.[\]]+)*$/.test(path) || path === "") return undefined;
  return path.split(/\.|(?=\[)/).flatMap((part): (string | number)[] => {
    const place = /^\[(\d+)\]$/.exec(part);
    return place !== null ? [Number(place[1])] : part === "" ? [] : [part];
  });
}

/** The number that stands at a path of a message; undefined when there is none. Yes and no are 1 and 0. */
export function numberAt(message: unknown, path: string): number | undefined {
  let value = message;
  for (const step of pathSteps(path) ?? []) {
    if (typeof value !== "object" || value === null) return undefined;
    // Of a list that was summarised there is the beginning.
    const first = (value as Record<string, unknown>)["first"];
    const holder = typeof step === "number" && !Array.isArray(value) && Array.isArray(first) ? first : value;
    if (!Object.hasOwn(holder, step)) return undefined;
    value = (holder as Record<string | number, unknown>)[step];
  }
  if (typeof value === "boolean") return value ? 1 : 0;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
