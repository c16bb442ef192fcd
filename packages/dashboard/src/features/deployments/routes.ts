import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readCompareSearch, readDeploymentSearch, readDeploymentsSearch, readNewDeploymentSearch } from "./search.ts";
import { lazyPage } from "../../shell/lazy-page.ts";

const deploymentsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments",
  validateSearch: readDeploymentsSearch,
  component: lazyPage(() => import("./deployments-page.tsx"), "DeploymentsPage"),
});
const newDeploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/new",
  validateSearch: readNewDeploymentSearch,
  component: lazyPage(() => import("./new-deployment-page.tsx"), "NewDeploymentPage"),
});
const compareRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/compare",
  validateSearch: readCompareSearch,
  component: lazyPage(() => import("./compare-page.tsx"), "ComparePage"),
});
const deploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/deployments/$id",
  validateSearch: readDeploymentSearch,
  component: lazyPage(() => import("./deployment-page.tsx"), "DeploymentPage"),
});
const configDeploymentRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/config-deployments/$id",
  validateSearch: readDeploymentSearch,
  component: lazyPage(() => import("./config-deployment-page.tsx"), "ConfigDeploymentPage"),
});

export const deploymentRoutes = [deploymentsRoute, newDeploymentRoute, compareRoute, deploymentRoute, configDeploymentRoute];
