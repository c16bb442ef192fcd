import { createRouter } from "@tanstack/react-router";
import { accountRoutes } from "./features/account/routes.ts";
import { adminRoutes } from "./features/admin/routes.ts";
import { auditRoutes } from "./features/audit/routes.ts";
import { configRoutes } from "./features/configs/routes.ts";
import { deploymentRoutes } from "./features/deployments/routes.ts";
import { enrollmentRoutes } from "./features/enrollment/routes.ts";
import { fleetRoutes } from "./features/fleets/routes.ts";
import { liveRoutes, liveTabs } from "./features/live/routes.ts";
import { overviewRoutes } from "./features/overview/routes.ts";
import { releaseRoutes } from "./features/releases/routes.ts";
import { robotRoute, robotsRoute, robotTabs } from "./features/robots/routes.ts";
import { settingsRoutes } from "./features/settings/routes.ts";
import { signInRoutes } from "./features/sign-in/routes.ts";
import { siteRoutes } from "./features/sites/routes.ts";
import { userRoutes } from "./features/users/routes.ts";
import { appRoute, nowhereRoute, rootRoute } from "./shell/app-route.tsx";

const routeTree = rootRoute.addChildren([
  ...signInRoutes,
  ...adminRoutes,
  appRoute.addChildren([
    ...overviewRoutes,
    robotsRoute,
    robotRoute.addChildren([...robotTabs, ...liveTabs]),
    ...liveRoutes,
    ...fleetRoutes,
    ...siteRoutes,
    ...deploymentRoutes,
    ...releaseRoutes,
    ...configRoutes,
    ...enrollmentRoutes,
    ...userRoutes,
    ...settingsRoutes,
    ...auditRoutes,
    ...accountRoutes,
    nowhereRoute,
  ]),
]);

export const router = createRouter({ routeTree, defaultPreload: "intent", scrollRestoration: true });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
