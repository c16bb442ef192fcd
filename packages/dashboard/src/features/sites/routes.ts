import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const sitesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/sites",
  validateSearch: ({ q }: Record<string, unknown>): { q?: string | undefined } => (typeof q === "string" && q !== "" ? { q } : {}),
  component: lazyPage(() => import("./sites-page.tsx"), "SitesPage"),
});
const siteRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/sites/$id",
  component: lazyPage(() => import("./site-page.tsx"), "SitePage"),
});

export const siteRoutes = [sitesRoute, siteRoute];
