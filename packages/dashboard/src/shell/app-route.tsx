import { createRootRoute, createRoute, Outlet, redirect, useRouter } from "@tanstack/react-router";
import { useCallback, useEffect } from "react";
import { mayPass } from "../api/query-client.ts";
import { readSession } from "../api/session.ts";
import { EmptyState, ErrorState, LinkButton, PageHeader } from "../ui/index.ts";
import { ToastList } from "../ui/toasts.tsx";
import { AppFrame } from "./app-frame.tsx";

const RETRY_MS = 5_000;

/** Shown if a page could not be loaded. Retries automatically after temporary errors. */
function LoadError({ error }: { error: unknown }) {
  const router = useRouter();
  const again = useCallback(() => void router.invalidate(), [router]);
  const may_pass = mayPass(error);
  useEffect(() => {
    if (!may_pass) return undefined;
    const timer = setInterval(again, RETRY_MS);
    return () => clearInterval(timer);
  }, [again, may_pass]);
  return <ErrorState error={error} onRetry={again} />;
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
