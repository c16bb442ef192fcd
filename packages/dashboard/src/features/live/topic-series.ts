/** Time window of the plot. */
export const WINDOW_S = 60;
/** Maximum points, independent of the rate. */
export const POINTS_MAX = 3_000;

/** A bounded time series of a topic's numeric fields. Times are in seconds. */
export function createSeries() {
  let points: { at: number; message: unknown }[] = [];
  return {
    /** Adds a message received by the robot at `at` (RFC 3339). Skips a message that is older than the last one, after a clock change. */
    add(at: string, message: unknown): void {
      const seconds = Date.parse(at) / 1_000;
      if (!Number.isFinite(seconds)) return;
      const last = points.at(-1)?.at;
      if (last !== undefined && seconds < last) {
        if (last - seconds > WINDOW_S) points = [];
        else return;
      }
      points.push({ at: seconds, message });
      const from = points.findIndex((point) => point.at > seconds - WINDOW_S);
      points = points.slice(Math.max(from, points.length - POINTS_MAX));
    },
    /** Returns the data for uPlot: times, then the values of each field; null for missing values. */
    read: (fields: readonly string[]): [number[], ...(number | null)[][]] => [
      points.map(({ at }) => at),
      ...fields.map((field) => points.map(({ message }) => numberAt(message, field) ?? null)),
    ],
    clear(): void {
      points = [];
    },
  };
}

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
    // A summarized list is an object whose field `first` contains its first elements.
    const first = (value as Record<string, unknown>)["first"];
    const holder = typeof step === "number" && !Array.isArray(value) && Array.isArray(first) ? first : value;
    if (!Object.hasOwn(holder, step)) return undefined;
    value = (holder as Record<string | number, unknown>)[step];
  }
  if (typeof value === "boolean") return value ? 1 : 0;
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}
