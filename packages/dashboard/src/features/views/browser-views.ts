import { readRobotsSearch, type RobotsSearch } from "../../search.ts";

/** A view of the robots that an earlier version of the dashboard stored in this browser. */
interface BrowserView {
  name: string;
  search: RobotsSearch;
}

/** Parses stored views; ignores invalid ones. */
export function parseBrowserViews(text: string | null): BrowserView[] {
  try {
    const stored: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(stored)) return [];
    return stored.flatMap((view: unknown) => {
      const { name, search } = (view ?? {}) as { name?: unknown; search?: unknown };
      if (typeof name !== "string" || name.trim() === "" || typeof search !== "object" || search === null) return [];
      return [{ name: name.trim(), search: readRobotsSearch(search as Record<string, unknown>) }];
    });
  } catch {
    return [];
  }
}

const keyFor = (org_id: string): string => `roamfleet.robot-views.${org_id}`;

export const readBrowserViews = (org_id: string): BrowserView[] => parseBrowserViews(localStorage.getItem(keyFor(org_id)));

export function writeBrowserViews(org_id: string, views: readonly BrowserView[]): void {
  if (views.length === 0) localStorage.removeItem(keyFor(org_id));
  else localStorage.setItem(keyFor(org_id), JSON.stringify(views));
}
