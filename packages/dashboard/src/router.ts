import { createRoute, createRouter } from "@tanstack/react-router";
import * as search from "./search.ts";
import { appRoute, nowhereRoute, rootRoute } from "./shell/app-route.tsx";
import { lazyPage } from "./shell/lazy-page.ts";

/** The page of a robot with its tabs. */
const robotRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/robots/$id",
  component: lazyPage(() => import("./features/robots/robot-frame.tsx"), "RobotFrame"),
});

/** Pages without a session. The admin page requires the service's admin token. */
const rootPages = [
  createRoute({
    getParentRoute: () => rootRoute,
    path: "/sign-in",
    validateSearch: search.readSignInSearch,
    component: lazyPage(() => import("./features/sign-in/sign-in-page.tsx"), "SignInPage"),
  }),
  createRoute({
    getParentRoute: () => rootRoute,
    path: "/admin",
    validateSearch: search.readAdminSearch,
    component: lazyPage(() => import("./features/admin/admin-page.tsx"), "AdminPage"),
  }),
];

const robotTabs = [
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/",
    component: lazyPage(() => import("./features/robots/robot-overview.tsx"), "RobotOverview"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/health",
    validateSearch: search.readHealthSearch,
    component: lazyPage(() => import("./features/robots/robot-health.tsx"), "RobotHealth"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/config",
    component: lazyPage(() => import("./features/robots/robot-config.tsx"), "RobotConfigTab"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/timeline",
    validateSearch: search.readTimelineSearch,
    component: lazyPage(() => import("./features/robots/robot-timeline.tsx"), "RobotTimeline"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/logs",
    validateSearch: search.readLogSearch,
    component: lazyPage(() => import("./features/live/logs-pages.tsx"), "RobotLogs"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/shell",
    validateSearch: search.readShellSearch,
    component: lazyPage(() => import("./features/live/robot-shell.tsx"), "RobotShell"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/camera",
    validateSearch: search.readCameraSearch,
    component: lazyPage(() => import("./features/live/robot-camera.tsx"), "RobotCamera"),
  }),
  createRoute({
    getParentRoute: () => robotRoute,
    path: "/topics",
    validateSearch: search.readTopicSearch,
    component: lazyPage(() => import("./features/live/robot-topics.tsx"), "RobotTopics"),
  }),
];

const appPages = [
  createRoute({
    getParentRoute: () => appRoute,
    path: "/",
    component: lazyPage(() => import("./features/overview/overview-page.tsx"), "OverviewPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/robots",
    validateSearch: search.readRobotsSearch,
    component: lazyPage(() => import("./features/robots/robots-page.tsx"), "RobotsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/shells",
    validateSearch: search.readShellsSearch,
    component: lazyPage(() => import("./features/live/shells-page.tsx"), "ShellsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/shells/$id",
    component: lazyPage(() => import("./features/live/shell-session-page.tsx"), "ShellSessionPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/fleets",
    validateSearch: search.readFleetsSearch,
    component: lazyPage(() => import("./features/fleets/fleets-page.tsx"), "FleetsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/fleets/$id",
    component: lazyPage(() => import("./features/fleets/fleet-page.tsx"), "FleetPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/fleets/$id/logs",
    validateSearch: search.readLogSearch,
    component: lazyPage(() => import("./features/live/logs-pages.tsx"), "FleetLogsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/sites",
    validateSearch: search.readSitesSearch,
    component: lazyPage(() => import("./features/sites/sites-pages.tsx"), "SitesPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/sites/$id",
    component: lazyPage(() => import("./features/sites/sites-pages.tsx"), "SitePage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/deployments",
    validateSearch: search.readDeploymentsSearch,
    component: lazyPage(() => import("./features/deployments/deployments-page.tsx"), "DeploymentsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/deployments/new",
    validateSearch: search.readNewDeploymentSearch,
    component: lazyPage(() => import("./features/deployments/new-deployment-page.tsx"), "NewDeploymentPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/deployments/compare",
    validateSearch: search.readCompareSearch,
    component: lazyPage(() => import("./features/deployments/compare-page.tsx"), "ComparePage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/deployments/$id",
    validateSearch: search.readDeploymentSearch,
    component: lazyPage(() => import("./features/deployments/deployment-page.tsx"), "DeploymentPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/config-deployments/$id",
    validateSearch: search.readDeploymentSearch,
    component: lazyPage(() => import("./features/deployments/config-deployment-page.tsx"), "ConfigDeploymentPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/releases",
    validateSearch: search.readReleasesSearch,
    component: lazyPage(() => import("./features/releases/releases-page.tsx"), "ReleasesPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/releases/$id",
    component: lazyPage(() => import("./features/releases/release-page.tsx"), "ReleasePage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/configs",
    validateSearch: search.readConfigsSearch,
    component: lazyPage(() => import("./features/configs/configs-page.tsx"), "ConfigsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/configs/drift",
    validateSearch: search.readDriftSearch,
    component: lazyPage(() => import("./features/configs/drift-page.tsx"), "DriftPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/configs/schemas",
    component: lazyPage(() => import("./features/configs/schemas-page.tsx"), "SchemasPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/configs/$id",
    component: lazyPage(() => import("./features/configs/config-page.tsx"), "ConfigPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/enrollment",
    validateSearch: search.readKeysSearch,
    component: lazyPage(() => import("./features/enrollment/enrollment-page.tsx"), "EnrollmentPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/enrollment/new",
    validateSearch: search.readNewKeySearch,
    component: lazyPage(() => import("./features/enrollment/new-key-page.tsx"), "NewKeyPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/users",
    validateSearch: search.readUsersSearch,
    component: lazyPage(() => import("./features/users/users-pages.tsx"), "UsersPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/users/tokens",
    validateSearch: search.readTokensSearch,
    component: lazyPage(() => import("./features/users/users-pages.tsx"), "TokensPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/audit",
    validateSearch: search.readAuditSearch,
    component: lazyPage(() => import("./features/audit/audit-page.tsx"), "AuditPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/settings",
    component: lazyPage(() => import("./features/settings/settings-page.tsx"), "SettingsPage"),
  }),
  createRoute({
    getParentRoute: () => appRoute,
    path: "/account",
    component: lazyPage(() => import("./features/account/account-page.tsx"), "AccountPage"),
  }),
];

const routeTree = rootRoute.addChildren([
  ...rootPages,
  appRoute.addChildren([...appPages, robotRoute.addChildren(robotTabs), nowhereRoute]),
]);

export const router = createRouter({ routeTree, defaultPreload: "intent", scrollRestoration: true });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
