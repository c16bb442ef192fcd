import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { robotRoute } from "../robots/routes.ts";
import { readCameraSearch } from "./camera-search.ts";
import { readLogSearch } from "./log-search.ts";
import { readShellSearch, readShellsSearch } from "./shell-search.ts";
import { readTopicSearch } from "./topic-search.ts";
import { lazyPage } from "../../shell/lazy-page.ts";

const shellsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/shells",
  validateSearch: readShellsSearch,
  component: lazyPage(() => import("./shells-page.tsx"), "ShellsPage"),
});
const shellRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/shells/$id",
  component: lazyPage(() => import("./shell-session-page.tsx"), "ShellSessionPage"),
});
const fleetLogsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/fleets/$id/logs",
  validateSearch: readLogSearch,
  component: lazyPage(() => import("./fleet-logs-page.tsx"), "FleetLogsPage"),
});

export const liveRoutes = [shellsRoute, shellRoute, fleetLogsRoute];

const robotLogsRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/logs",
  validateSearch: readLogSearch,
  component: lazyPage(() => import("./robot-logs.tsx"), "RobotLogs"),
});

const robotShellRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/shell",
  validateSearch: readShellSearch,
  component: lazyPage(() => import("./robot-shell.tsx"), "RobotShell"),
});

const robotCameraRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/camera",
  validateSearch: readCameraSearch,
  component: lazyPage(() => import("./robot-camera.tsx"), "RobotCamera"),
});

const robotTopicsRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/topics",
  validateSearch: readTopicSearch,
  component: lazyPage(() => import("./robot-topics.tsx"), "RobotTopics"),
});

export const liveTabs = [robotLogsRoute, robotShellRoute, robotCameraRoute, robotTopicsRoute];
