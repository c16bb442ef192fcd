import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";
import type { FleetsSearch } from "./fleets-page.tsx";

const FIELDS = ["q", "site_id"] as const;

const fleetsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/fleets",
  validateSearch: (search: Record<string, unknown>): FleetsSearch =>
    Object.fromEntries(FIELDS.flatMap((name) => (typeof search[name] === "string" && search[name] !== "" ? [[name, search[name]]] : []))),
  component: lazyPage(() => import("./fleets-page.tsx"), "FleetsPage"),
});
const fleetRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/fleets/$id",
  component: lazyPage(() => import("./fleet-page.tsx"), "FleetPage"),
});

export const fleetRoutes = [fleetsRoute, fleetRoute];
