import type { SavedView } from "@roamfleet/protocol/routes";
import type { ViewPage } from "@roamfleet/protocol/states";
import { useNavigate } from "@tanstack/react-router";
import { readView } from "./view-query.ts";

/** Paths of the pages with saved views. */
const PATHS: Readonly<Record<ViewPage, string>> = {
  robots: "/robots",
  fleets: "/fleets",
  sites: "/sites",
  deployments: "/deployments",
  releases: "/releases",
  incidents: "/incidents",
  logs: "/logs",
  metrics: "/explore",
  audit: "/audit",
};

/** Returns a function that opens a view on its page. */
export function useOpenView(): (view: SavedView) => void {
  const navigate = useNavigate();
  return ({ id, page, query }) => void navigate({ to: PATHS[page], search: readView(query).search, state: { view_id: id } } as never);
}
