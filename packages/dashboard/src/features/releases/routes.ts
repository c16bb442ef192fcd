import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";
import type { ReleasesSearch } from "./releases-page.tsx";

const FIELDS = ["q", "app", "kind"] as const;

/** The router parses a tag of digits as a number. */
const readSearch = (search: Record<string, unknown>): ReleasesSearch =>
  Object.fromEntries(
    FIELDS.flatMap((name) => {
      const value = search[name];
      return (typeof value === "string" || typeof value === "number") && value !== "" ? [[name, String(value)]] : [];
    }),
  );

const releasesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/releases",
  validateSearch: readSearch,
  component: lazyPage(() => import("./releases-page.tsx"), "ReleasesPage"),
});
const releaseRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/releases/$id",
  component: lazyPage(() => import("./release-page.tsx"), "ReleasePage"),
});

export const releaseRoutes = [releasesRoute, releaseRoute];
