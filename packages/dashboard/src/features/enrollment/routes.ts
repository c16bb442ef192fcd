import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const STATUSES = ["active", "expired", "exhausted", "revoked"] as const;
type Status = (typeof STATUSES)[number];

const enrollmentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/enrollment",
  validateSearch: ({ status }: Record<string, unknown>): { status?: Status | undefined } =>
    STATUSES.includes(status as Status) ? { status: status as Status } : {},
  component: lazyPage(() => import("./enrollment-page.tsx"), "EnrollmentPage"),
});
const newKeyRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/enrollment/new",
  validateSearch: ({ fleet_id }: Record<string, unknown>): { fleet_id?: string | undefined } =>
    typeof fleet_id === "string" && fleet_id !== "" ? { fleet_id } : {},
  component: lazyPage(() => import("./new-key-page.tsx"), "NewKeyPage"),
});

export const enrollmentRoutes = [enrollmentRoute, newKeyRoute];
