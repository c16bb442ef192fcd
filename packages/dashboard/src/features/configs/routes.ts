import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readConfigsSearch, readDriftSearch } from "./configs-search.ts";
import { lazyPage } from "../../shell/lazy-page.ts";

const configsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs",
  validateSearch: readConfigsSearch,
  component: lazyPage(() => import("./configs-page.tsx"), "ConfigsPage"),
});
const driftRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/drift",
  validateSearch: readDriftSearch,
  component: lazyPage(() => import("./drift-page.tsx"), "DriftPage"),
});
const schemasRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/schemas",
  component: lazyPage(() => import("./schemas-page.tsx"), "SchemasPage"),
});
const configRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/configs/$id",
  component: lazyPage(() => import("./config-page.tsx"), "ConfigPage"),
});

export const configRoutes = [configsRoute, driftRoute, schemasRoute, configRoute];
