import { type AnyRoute, createRoute, createRouter } from "@tanstack/react-router";
import * as search from "./search.ts";
import { appRoute, nowhereRoute, rootRoute } from "./shell/app-route.tsx";
import { lazyPage, type Load } from "./shell/lazy-page.ts";

/**
 * Creates the route of a page without child routes. The page's code is loaded when the page is opened. `read` parses its URL parameters.
 */
const page = <Parent extends AnyRoute, const Path extends string, Name extends string, S extends object = search.NoSearch>(
  parent: Parent,
  path: Path,
  load: Load<NoInfer<Name>>,
  name: Name,
  read: (search: search.Search) => S = search.readNothing as () => S,
) => createRoute({ getParentRoute: () => parent, path, validateSearch: search.exactSearch(read), component: lazyPage(load, name) });

/** The page of a robot with its tabs, which read the URL parameters. */
const robotRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/robots/$id",
  component: lazyPage(() => import("./features/robots/robot-frame.tsx"), "RobotFrame"),
});

/** Pages that need no session. The admin page requires the service's admin token instead. */
const rootPages = [
  page(rootRoute, "/sign-in", () => import("./features/sign-in/sign-in-page.tsx"), "SignInPage", search.readSignInSearch),
  page(rootRoute, "/admin", () => import("./features/admin/admin-page.tsx"), "AdminPage", search.readAdminSearch),
];

const robotTabs = [
  page(robotRoute, "/", () => import("./features/robots/robot-overview.tsx"), "RobotOverview"),
  page(robotRoute, "/health", () => import("./features/robots/robot-health.tsx"), "RobotHealth", search.readHealthSearch),
  page(robotRoute, "/metrics", () => import("./features/robots/robot-metrics.tsx"), "RobotMetrics", search.readMetricsSearch),
  page(robotRoute, "/config", () => import("./features/robots/robot-config.tsx"), "RobotConfigTab"),
  page(robotRoute, "/timeline", () => import("./features/robots/robot-timeline.tsx"), "RobotTimeline", search.readTimelineSearch),
  page(robotRoute, "/logs", () => import("./features/live/logs-pages.tsx"), "RobotLogs", search.readLogSearch),
  page(robotRoute, "/shell", () => import("./features/live/robot-shell.tsx"), "RobotShell", search.readShellSearch),
  page(robotRoute, "/camera", () => import("./features/live/robot-camera.tsx"), "RobotCamera", search.readCameraSearch),
  page(robotRoute, "/topics", () => import("./features/live/robot-topics.tsx"), "RobotTopics", search.readTopicSearch),
];

const appPages = [
  page(appRoute, "/", () => import("./features/overview/overview-page.tsx"), "OverviewPage"),
  page(appRoute, "/robots", () => import("./features/robots/robots-page.tsx"), "RobotsPage", search.readRobotsSearch),
  page(appRoute, "/map", () => import("./features/map/map-page.tsx"), "MapPage", search.readMapSearch),
  page(appRoute, "/shells", () => import("./features/live/shells-page.tsx"), "ShellsPage", search.readShellsSearch),
  page(appRoute, "/shells/$id", () => import("./features/live/shell-session-page.tsx"), "ShellSessionPage"),
  page(appRoute, "/fleets", () => import("./features/fleets/fleets-page.tsx"), "FleetsPage", search.readFleetsSearch),
  page(appRoute, "/fleets/$id", () => import("./features/fleets/fleet-page.tsx"), "FleetPage"),
  page(appRoute, "/fleets/$id/logs", () => import("./features/live/logs-pages.tsx"), "FleetLogsPage", search.readLogSearch),
  page(appRoute, "/sites", () => import("./features/sites/sites-pages.tsx"), "SitesPage", search.readSitesSearch),
  page(appRoute, "/sites/$id", () => import("./features/sites/sites-pages.tsx"), "SitePage"),
  page(
    appRoute,
    "/deployments",
    () => import("./features/deployments/deployments-page.tsx"),
    "DeploymentsPage",
    search.readDeploymentsSearch,
  ),
  page(
    appRoute,
    "/deployments/new",
    () => import("./features/deployments/new-deployment-page.tsx"),
    "NewDeploymentPage",
    search.readNewDeploymentSearch,
  ),
  page(appRoute, "/deployments/compare", () => import("./features/deployments/compare-page.tsx"), "ComparePage", search.readCompareSearch),
  page(
    appRoute,
    "/deployments/$id",
    () => import("./features/deployments/deployment-page.tsx"),
    "DeploymentPage",
    search.readDeploymentSearch,
  ),
  page(
    appRoute,
    "/config-deployments/$id",
    () => import("./features/deployments/config-deployment-page.tsx"),
    "ConfigDeploymentPage",
    search.readDeploymentSearch,
  ),
  page(appRoute, "/incidents", () => import("./features/incidents/incidents-page.tsx"), "IncidentsPage", search.readIncidentsSearch),
  page(appRoute, "/incidents/$id", () => import("./features/incidents/incident-page.tsx"), "IncidentPage"),
  page(appRoute, "/alert-rules", () => import("./features/incidents/alert-rules-page.tsx"), "AlertRulesPage", search.readAlertRulesSearch),
  // Not at /metrics: there the server has its metrics for Prometheus.
  page(appRoute, "/explore", () => import("./features/metrics/explorer-page.tsx"), "ExplorerPage", search.readExplorerSearch),
  page(appRoute, "/releases", () => import("./features/releases/releases-page.tsx"), "ReleasesPage", search.readReleasesSearch),
  page(appRoute, "/releases/$id", () => import("./features/releases/release-page.tsx"), "ReleasePage"),
  page(appRoute, "/configs", () => import("./features/configs/configs-page.tsx"), "ConfigsPage", search.readConfigsSearch),
  page(appRoute, "/configs/drift", () => import("./features/configs/drift-page.tsx"), "DriftPage", search.readDriftSearch),
  page(appRoute, "/configs/schemas", () => import("./features/configs/schemas-page.tsx"), "SchemasPage"),
  page(appRoute, "/configs/$id", () => import("./features/configs/config-page.tsx"), "ConfigPage"),
  page(appRoute, "/enrollment", () => import("./features/enrollment/enrollment-page.tsx"), "EnrollmentPage", search.readKeysSearch),
  page(appRoute, "/enrollment/new", () => import("./features/enrollment/new-key-page.tsx"), "NewKeyPage", search.readNewKeySearch),
  page(appRoute, "/users", () => import("./features/users/users-pages.tsx"), "UsersPage", search.readUsersSearch),
  page(appRoute, "/users/tokens", () => import("./features/users/users-pages.tsx"), "TokensPage", search.readTokensSearch),
  page(appRoute, "/logs", () => import("./features/live/log-search-page.tsx"), "LogSearchPage", search.readLogsSearch),
  page(appRoute, "/report", () => import("./features/report/report-page.tsx"), "ReportPage", search.readReportSearch),
  page(appRoute, "/audit", () => import("./features/audit/audit-page.tsx"), "AuditPage", search.readAuditSearch),
  page(appRoute, "/settings", () => import("./features/settings/settings-page.tsx"), "SettingsPage"),
  page(appRoute, "/account", () => import("./features/account/account-page.tsx"), "AccountPage"),
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
