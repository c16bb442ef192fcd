import { createRoute } from "@tanstack/react-router";
import { rootRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const STATUSES = ["pending", "active", "suspended"] as const;
const TABS = ["orgs", "audit"] as const;

interface AdminSearch {
  status?: (typeof STATUSES)[number] | undefined;
  tab?: (typeof TABS)[number] | undefined;
}

/** Outside the app route: it requires the service's admin token, not a session. */
const adminRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/admin",
  validateSearch: (search: Record<string, unknown>): AdminSearch => ({
    status: STATUSES.find((one) => one === search.status),
    tab: TABS.find((one) => one === search.tab),
  }),
  component: lazyPage(() => import("./admin-page.tsx"), "AdminPage"),
});

export const adminRoutes = [adminRoute];
