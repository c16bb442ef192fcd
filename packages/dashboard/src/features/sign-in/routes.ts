import { createRoute } from "@tanstack/react-router";
import { rootRoute } from "../../shell/app-route.tsx";
import { lazyPage } from "../../shell/lazy-page.ts";

const signInRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/sign-in",
  validateSearch: (search: Record<string, unknown>): { next?: string } =>
    // Only paths of this dashboard: prevents open redirects.
    typeof search.next === "string" && /^\/(?![/\\])/.test(search.next) ? { next: search.next } : {},
  component: lazyPage(() => import("./sign-in-page.tsx"), "SignInPage"),
});

export const signInRoutes = [signInRoute];
