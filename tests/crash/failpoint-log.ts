import { existsSync, readFileSync } from "node:fs";
import type { Reached } from "@roamfleet/clock/failpoint";

/** Returns the lines of a failpoint log, oldest first; none if no failpoint was reached yet. */
export const readFailpointLog = (file: string): Reached[] =>
  existsSync(file)
    ? readFileSync(file, "utf8")
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Reached)
    : [];

/** Returns the distinct points of a log that match, those around a commit first: these are the most dangerous. */
export function pointsOf(file: string, wanted: RegExp): string[] {
  const points = [...new Set(readFailpointLog(file).map(({ point }) => point))].filter((point) => wanted.test(point));
  return [...points.filter((point) => point.endsWith("-commit")), ...points.filter((point) => !point.endsWith("-commit"))];
}
