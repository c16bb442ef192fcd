import { createRoute } from "@tanstack/react-router";
import { appRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const accountRoute = createRoute({
  getParentRoute: () => appRoute,
  path: "/account",
  component: lazyPage(() => import("./account-page.tsx"), "AccountPage"),
});

export const accountRoutes = [accountRoute];
