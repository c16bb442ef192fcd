import { createRootRoute, createRoute, Outlet, redirect } from "@tanstack/react-router";
import { readSession } from "../api/session.ts";
import { ErrorState } from "../ui/index.ts";
import { ToastList } from "../ui/toast-list.tsx";
import { AppFrame } from "./app-frame.tsx";
import { NotFoundPage } from "./not-found-page.tsx";

export const rootRoute = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <ToastList />
    </>
  ),
  notFoundComponent: () => (
    <main className="p-6">
      <NotFoundPage />
    </main>
  ),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
});

/** All that needs somebody to be signed in: the frame with its navigation, and a page inside. */
export const appRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "app",
  beforeLoad: async ({ location }) => {
    const signed_in = await readSession();
    if (signed_in === undefined) throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { next: location.href } });
    return signed_in;
  },
  // Not at each click: only when the page is loaded, and after a 401.
  shouldReload: false,
  component: AppFrame,
  notFoundComponent: NotFoundPage,
});

/** Every address that is nobody's: in the frame, so that there is a way on. */
export const nowhereRoute = createRoute({ getParentRoute: () => appRoute, path: "$", component: NotFoundPage });
