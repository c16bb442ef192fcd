import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const overviewRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/",
  component: lazyPage(() => import("./overview-page.tsx"), "OverviewPage"),
});

export const overviewRoutes = [overviewRoute];
