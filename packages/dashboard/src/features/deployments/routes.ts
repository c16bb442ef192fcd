import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readCompareSearch, readDeploymentSearch, readDeploymentsSearch, readNewDeploymentSearch } from "./search.ts";

const deploymentsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments",
  validateSearch: readDeploymentsSearch,
  component: lazyRouteComponent(() => import("./deployments-page.tsx"), "DeploymentsPage"),
});
const newDeploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/new",
  validateSearch: readNewDeploymentSearch,
  component: lazyRouteComponent(() => import("./new-deployment-page.tsx"), "NewDeploymentPage"),
});
const compareRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/compare",
  validateSearch: readCompareSearch,
  component: lazyRouteComponent(() => import("./compare-page.tsx"), "ComparePage"),
});
const deploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/$id",
  validateSearch: readDeploymentSearch,
  component: lazyRouteComponent(() => import("./deployment-page.tsx"), "DeploymentPage"),
});
const configDeploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/config-deployments/$id",
  validateSearch: readDeploymentSearch,
  component: lazyRouteComponent(() => import("./config-deployment-page.tsx"), "ConfigDeploymentPage"),
});

export const deploymentRoutes = [deploymentsRoute, newDeploymentRoute, compareRoute, deploymentRoute, configDeploymentRoute];
