import { Outlet, useRouter } from "@tanstack/react-router";
import { CloudOff, Menu as MenuIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { followChanges } from "../api/events.ts";
import { queryClient, refetchQueries, watchSignedOut } from "../api/query-client.ts";
import { useFreshSession, useMe } from "../api/session.ts";
import { Button, IconButton, TextLine, Time, useOutage } from "../ui/index.ts";
import { LivenessMark, Navigation } from "./navigation.tsx";
import { Palette } from "./palette.tsx";
import { ShortcutHelp, useShortcuts } from "./shortcuts.tsx";

type Window = "palette" | "help" | undefined;

/** The frame of all pages: navigation, page content, command palette and shortcut help. */
export function AppFrame() {
  const me = useMe();
  useFreshSession();
  const router = useRouter();
  const [is_open, setOpen] = useState(false);
  const [shown, setShown] = useState<Window>();
  const is_stale = useOutage() !== undefined;
  useEffect(followChanges, [me.org.id]);
  // The session expired or was revoked: return to this page after the next sign-in.
  useEffect(
    () =>
      watchSignedOut(() => {
        const next = router.state.location.href;
        if (router.state.location.pathname === "/sign-in") return;
        void router.navigate({ to: "/sign-in", search: { next } }).then(() => queryClient.clear());
      }),
    [router],
  );
  // On narrow screens, close the navigation after following a link.
  useEffect(() => router.subscribe("onResolved", () => setOpen(false)), [router]);
  useShortcuts({ onPalette: () => setShown("palette"), onHelp: () => setShown("help") });
  return (
    <div className="flex h-full">
      <a
        href="#page"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-accent-ink focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <Navigation is_open={is_open} onClose={() => setOpen(false)} onPalette={() => setShown("palette")} onHelp={() => setShown("help")} />
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3 md:hidden">
          <IconButton label="Open navigation" icon={MenuIcon} size={18} onClick={() => setOpen(true)} />
          <TextLine className="flex-1 font-medium">{me.org.name}</TextLine>
          <LivenessMark />
        </header>
        <OutageNote />
        <main
          id="page"
          tabIndex={-1}
          data-stale={is_stale || undefined}
          className="data-stale:grayscale min-h-0 min-w-0 flex-1 overflow-x-hidden overflow-y-auto px-4 py-4 outline-none md:px-6 md:py-5"
        >
          <Outlet />
        </main>
      </div>
      <Palette open={shown === "palette"} onClose={() => setShown(undefined)} />
      <ShortcutHelp open={shown === "help"} onClose={() => setShown(undefined)} />
    </div>
  );
}

/** A bar above every page during an outage. It states that the data below is old and that actions are disabled. */
function OutageNote() {
  const outage = useOutage();
  if (outage === undefined) return null;
  return (
    <div role="status" data-outage className="flex shrink-0 items-start gap-2.5 border-b border-bad bg-bad-soft px-4 py-2 md:px-6">
      <CloudOff size={16} aria-hidden className="mt-0.5 shrink-0 text-bad sm:mt-2" />
      <p className="min-w-0 flex-1 sm:py-1.5">
        <strong className="font-semibold">The server is not responding.</strong> Data from{" "}
        <Time at={new Date(outage.since_ms).toISOString()} exact />. Actions are disabled. The page reconnects automatically.
      </p>
      <Button onClick={() => refetchQueries()}>Try again</Button>
    </div>
  );
}
