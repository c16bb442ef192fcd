import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readConfigsSearch, readDriftSearch } from "./configs-search.ts";

const configsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs",
  validateSearch: readConfigsSearch,
  component: lazyRouteComponent(() => import("./configs-page.tsx"), "ConfigsPage"),
});
const driftRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/drift",
  validateSearch: readDriftSearch,
  component: lazyRouteComponent(() => import("./drift-page.tsx"), "DriftPage"),
});
const schemasRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/schemas",
  component: lazyRouteComponent(() => import("./schemas-page.tsx"), "SchemasPage"),
});
const configRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/$id",
  component: lazyRouteComponent(() => import("./config-page.tsx"), "ConfigPage"),
});

export const configRoutes = [configsRoute, driftRoute, schemasRoute, configRoute];
