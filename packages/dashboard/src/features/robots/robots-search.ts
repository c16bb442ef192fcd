import { hasFilters, type RobotsSearch } from "../../search.ts";
import { shellWord } from "../../ui/format.ts";

export const labelsOf = ({ label }: RobotsSearch): string[] => (label === undefined ? [] : [label].flat());

/** Whether any filter is set. The sort order is not a filter. */
export const isFiltered = ({ sort: _, ...filters }: RobotsSearch): boolean => hasFilters(filters);

/** Returns the `rf` command that lists the same robots. */
export function robotsCommand(search: RobotsSearch): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    for (const each of Array.isArray(value) ? value : [value]) if (each !== undefined) parts.append(name, each);
  const text = parts.toString();
  return text === "" ? "rf robots list" : `rf api GET ${shellWord(`/api/robots?${text}`)}`;
}
