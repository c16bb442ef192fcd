import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const settingsRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/settings",
  component: lazyPage(() => import("./settings-page.tsx"), "SettingsPage"),
});

export const settingsRoutes = [settingsRoute];
