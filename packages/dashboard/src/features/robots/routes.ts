import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { readHealthRange } from "./health-range.ts";
import { readRobotsSearch } from "./robots-search.ts";
import { readTimelineSearch } from "./timeline-search.ts";
import { lazyPage } from "../../shell/lazy-page.ts";

export type { RobotsSearch } from "./robots-search.ts";

export const robotsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/robots",
  validateSearch: readRobotsSearch,
  component: lazyPage(() => import("./robots-page.tsx"), "RobotsPage"),
});

/** The page of a robot with its tabs. The tabs for live data are in features/live. */
export const robotRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/robots/$id",
  component: lazyPage(() => import("./robot-frame.tsx"), "RobotFrame"),
});

const robotOverviewRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/",
  component: lazyPage(() => import("./robot-overview.tsx"), "RobotOverview"),
});

const robotHealthRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/health",
  validateSearch: readHealthRange,
  component: lazyPage(() => import("./robot-health.tsx"), "RobotHealth"),
});

const robotConfigRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/config",
  component: lazyPage(() => import("./robot-config.tsx"), "RobotConfigTab"),
});

const robotTimelineRoute = createRoute({
  getParentRoute: () => robotRoute,
  path: "/timeline",
  validateSearch: readTimelineSearch,
  component: lazyPage(() => import("./robot-timeline.tsx"), "RobotTimeline"),
});

export const robotTabs = [robotOverviewRoute, robotHealthRoute, robotConfigRoute, robotTimelineRoute];
