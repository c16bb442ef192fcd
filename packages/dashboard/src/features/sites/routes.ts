import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";

const sitesRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/sites",
  validateSearch: ({ q }: Record<string, unknown>): { q?: string | undefined } => (typeof q === "string" && q !== "" ? { q } : {}),
  component: lazyRouteComponent(() => import("./sites-page.tsx"), "SitesPage"),
});
const siteRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/sites/$id",
  component: lazyRouteComponent(() => import("./site-page.tsx"), "SitePage"),
});

export const siteRoutes = [sitesRoute, siteRoute];
