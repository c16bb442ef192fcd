import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";

const overviewRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./overview-page.tsx"), "OverviewPage"),
});

export const overviewRoutes = [overviewRoute];
