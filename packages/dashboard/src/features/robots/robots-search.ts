import { useCallback, useSyncExternalStore } from "react";
import { hasFilters, readRobotsSearch, type RobotsSearch } from "../../search.ts";
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

interface SavedView {
  name: string;
  search: RobotsSearch;
}

const VIEWS_MAX = 50;
const NAME_CHARACTERS_MAX = 80;
const keyFor = (org_id: string): string => `roamfleet.robot-views.${org_id}`;
const listeners = new Set<() => void>();

/** Parses the views stored in this browser; ignores invalid ones. */
export function readViews(text: string | null): readonly SavedView[] {
  try {
    const kept: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(kept)) return [];
    return kept.slice(0, VIEWS_MAX).flatMap((view: unknown) => {
      const { name, search } = (view ?? {}) as { name?: unknown; search?: unknown };
      if (typeof name !== "string" || name === "" || typeof search !== "object" || search === null) return [];
      return [{ name: name.slice(0, NAME_CHARACTERS_MAX), search: readRobotsSearch(search as Record<string, unknown>) }];
    });
  } catch {
    return [];
  }
}

/** Adds a view, or replaces the one with the same name. Sorted by name. */
export const withView = (views: readonly SavedView[], view: SavedView): SavedView[] =>
  [...views.filter(({ name }) => name !== view.name), view].toSorted((a, b) => a.name.localeCompare(b.name)).slice(0, VIEWS_MAX);

/** Whether two views of the robot list have the same filters and sort order. */
export const isSameView = (a: RobotsSearch, b: RobotsSearch): boolean => textOf(a) === textOf(b);
const textOf = (search: RobotsSearch): string =>
  JSON.stringify(Object.entries(readRobotsSearch(search as Record<string, unknown>)).toSorted(([a], [b]) => (a < b ? -1 : 1)));

let cached: { key: string; text: string | null; views: readonly SavedView[] } | undefined;
function viewsOf(key: string): readonly SavedView[] {
  const text = localStorage.getItem(key);
  if (cached === undefined || cached.key !== key || cached.text !== text) cached = { key, text, views: readViews(text) };
  return cached.views;
}

/** Returns the views of an organization that this browser stores, and a function that replaces them. */
export function useSavedViews(org_id: string): readonly [readonly SavedView[], (views: readonly SavedView[]) => void] {
  const key = keyFor(org_id);
  const views = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      window.addEventListener("storage", listener);
      return () => {
        listeners.delete(listener);
        window.removeEventListener("storage", listener);
      };
    },
    () => viewsOf(key),
  );
  const keep = useCallback(
    (next: readonly SavedView[]): void => {
      localStorage.setItem(key, JSON.stringify(next));
      for (const listener of listeners) listener();
    },
    [key],
  );
  return [views, keep];
}
