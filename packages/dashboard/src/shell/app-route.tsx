import { createRootRoute, createRoute, Outlet, redirect, useRouter } from "@tanstack/react-router";
import { useCallback, useEffect } from "react";
import { mayPass } from "../api/query-client.ts";
import { readSession } from "../api/session.ts";
import { EmptyState, ErrorState, LinkButton, PageHeader } from "../ui/index.ts";
import { ToastList } from "../ui/toasts.tsx";
import { AppFrame } from "./app-frame.tsx";

/** Delays before automatic retries. The delay doubles after each failure. */
const RETRY_MS = 2_000;
const RETRY_MS_MAX = 60_000;
/** Automatic retries since the session was last loaded. Not a state of the component, because each retry mounts a new one. */
let retries = 0;

/** Replaces the whole page if it could not be loaded. Retries automatically after temporary errors. */
function LoadError({ error }: { error: unknown }) {
  const router = useRouter();
  const again = useCallback(() => void router.invalidate(), [router]);
  useEffect(() => {
    if (!mayPass(error)) return undefined;
    const timer = setTimeout(
      () => {
        retries += 1;
        again();
      },
      Math.min(RETRY_MS * 2 ** retries, RETRY_MS_MAX),
    );
    return () => clearTimeout(timer);
  }, [again, error]);
  return (
    <main className="p-6">
      <PageHeader title="Roamfleet" label="Page not loaded" />
      <ErrorState error={error} onRetry={again} />
    </main>
  );
}

export const rootRoute = createRootRoute({
  component: () => (
    <div className="flex h-dvh flex-col">
      <div className="min-h-0 flex-1 overflow-y-auto">
        <Outlet />
      </div>
      <ToastList />
    </div>
  ),
  notFoundComponent: () => (
    <main className="p-6">
      <NotFoundPage />
    </main>
  ),
  errorComponent: LoadError,
});

/** The parent of all pages that require a session. */
export const appRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "app",
  beforeLoad: async ({ location }) => {
    const signed_in = await readSession();
    if (signed_in === undefined) throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { next: location.href } });
    retries = 0;
    return signed_in;
  },
  // This setting applies only to route loaders. The router still calls `beforeLoad` on each navigation.
  shouldReload: false,
  component: AppFrame,
  notFoundComponent: NotFoundPage,
});

/** The page for unknown addresses. It is shown inside the frame, so that the navigation stays available. */
export const nowhereRoute = createRoute({ getParentRoute: () => appRoute, path: "$", component: NotFoundPage });

function NotFoundPage() {
  return (
    <>
      <PageHeader title="Page not found" label="Page not found" />
      <EmptyState title="No page at this address" actions={<LinkButton to="/">Go to overview</LinkButton>}>
        The link may be incomplete, or from another version of Roamfleet.
      </EmptyState>
    </>
  );
}
