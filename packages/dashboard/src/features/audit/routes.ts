import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readAuditSearch } from "./audit-search.ts";

const auditRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/audit",
  validateSearch: readAuditSearch,
  component: lazyRouteComponent(() => import("./audit-page.tsx"), "AuditPage"),
});

export const auditRoutes = [auditRoute];
