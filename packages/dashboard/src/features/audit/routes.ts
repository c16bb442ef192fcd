import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readAuditSearch } from "./audit-search.ts";
import { lazyPage } from "../../shell/lazy-page.ts";

const auditRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/audit",
  validateSearch: readAuditSearch,
  component: lazyPage(() => import("./audit-page.tsx"), "AuditPage"),
});

export const auditRoutes = [auditRoute];
