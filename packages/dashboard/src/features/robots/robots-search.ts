import { shellWord } from "../../ui/shell-text.ts";

const CHOICES = {
  status: ["online", "offline", "never_connected", "decommissioned"],
  health: ["ok", "failing", "unknown"],
  release_state: ["current", "behind", "failed", "unknown"],
  config_state: ["in_sync", "pending", "drifted", "unknown"],
  sort: ["newest", "name"],
} as const;
type Choices = typeof CHOICES;
const TEXTS = ["q", "fleet_id", "site_id", "release_id", "app"] as const;

/** Filters and sort order of the table. They are in the URL, so that a view can be shared and saved. */
export type RobotsSearch = { [K in keyof Choices]?: Choices[K][number] } & { [K in (typeof TEXTS)[number]]?: string } & {
  /** KEY:VALUE each. Robots must have all of them. */
  label?: string | string[];
};

/** Parses the URL parameters and ignores invalid ones. The router parses a search of digits as a number. */
export function readRobotsSearch(search: Record<string, unknown>): RobotsSearch {
  const found: Record<string, unknown> = {};
  for (const [name, choices] of Object.entries(CHOICES))
    if ((choices as readonly unknown[]).includes(search[name])) found[name] = search[name];
  for (const name of TEXTS) {
    const value = search[name];
    if (["string", "number", "boolean"].includes(typeof value) && value !== "") found[name] = String(value);
  }
  const labels = labelsOf({ label: search.label as string });
  if (labels.length > 0) found.label = labels.length === 1 ? labels[0] : labels;
  return found;
}

export const labelsOf = ({ label }: RobotsSearch): string[] =>
  (Array.isArray(label) ? label : [label]).filter((each): each is string => typeof each === "string" && /^[^:]+:/.test(each));

/** Whether any filter is set. The sort order is not a filter. */
export const isFiltered = ({ sort: _, ...filters }: RobotsSearch): boolean => Object.keys(filters).length > 0;

/** Returns the `rf` command that lists the same robots. */
export function robotsCommand(search: RobotsSearch): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    for (const each of Array.isArray(value) ? value : [value]) if (each !== undefined) parts.append(name, each);
  const text = parts.toString();
  return text === "" ? "rf robots list" : `rf api GET ${shellWord(`/api/robots?${text}`)}`;
}
