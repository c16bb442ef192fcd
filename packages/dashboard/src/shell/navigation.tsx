import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import { Check, ChevronsUpDown, CircleHelp, Monitor, Moon, Search, Sun } from "lucide-react";
import { query } from "../api/queries.ts";
import { useHasErrors } from "../api/query-client.ts";
import { type Liveness, useLiveness } from "../api/events.ts";
import { changeOrg, signOut, useMay, useMe } from "../api/session.ts";
import { Blank, cx, hasFailed, IconButton, Menu, notifyError, TextLine, useOutage } from "../ui/index.ts";
import { type Place, PLACES } from "./places.ts";
import { chooseTheme, type Theme, useTheme } from "./theme.ts";

interface NavigationProps {
  /** Whether the navigation covers the page on narrow screens. */
  is_open: boolean;
  onClose: () => void;
  onPalette: () => void;
  onHelp: () => void;
}

export function Navigation({ is_open, onClose, onPalette, onHelp }: NavigationProps) {
  return (
    <>
      {is_open && <div className="fixed inset-0 z-30 bg-overlay md:hidden" onClick={onClose} aria-hidden />}
      <nav
        aria-label="Main"
        onKeyDown={(event) => event.key === "Escape" && onClose()}
        className={cx(
          "z-30 flex w-56 shrink-0 flex-col border-r border-line bg-sunken",
          is_open ? "max-md:fixed max-md:top-0 max-md:bottom-(--toasts,0px) max-md:left-0" : "max-md:hidden",
        )}
      >
        <OrgMenu />
        <button
          type="button"
          onClick={onPalette}
          className="mx-2 mb-4 flex h-8 items-center gap-2 rounded-md border border-line bg-surface px-2 text-muted hover:text-ink"
        >
          <Search size={14} aria-hidden />
          <span className="flex-1 text-left">Search or run…</span>
          <kbd className="font-mono text-xs">Ctrl K</kbd>
        </button>
        <div className="min-h-0 flex-1 overflow-y-auto px-2">
          {PLACES.map(({ title, places }) => (
            <PlaceGroup key={title} title={title} places={places} />
          ))}
        </div>
        <div className="flex items-center justify-between border-t border-line py-1.5 pr-2 pl-4">
          <LivenessMark />
          <div className="flex">
            <ThemeMenu />
            <IconButton label="Shortcuts and help" icon={CircleHelp} size={16} onClick={onHelp} />
          </div>
        </div>
      </nav>
    </>
  );
}

function PlaceGroup({ title, places }: { title: string; places: readonly Place[] }) {
  const is_admin = useMay("admin");
  return (
    <div className="mb-3">
      <p className="px-2 pb-1 text-xs text-muted">{title}</p>
      <ul>
        {places
          .filter(({ role }) => role === undefined || is_admin)
          .map((place) => (
            <li key={place.to}>
              <PlaceLink place={place} />
            </li>
          ))}
      </ul>
    </div>
  );
}

const ACTIVE = { className: "!bg-active !text-ink font-medium", "aria-current": "page" } as const;

function PlaceLink({ place: { label, to, also, icon: Icon } }: { place: Place }) {
  const is_also = useLocation({ select: ({ pathname }) => also !== undefined && pathname.startsWith(also) });
  return (
    <Link
      to={to}
      activeOptions={{ exact: to === "/", includeSearch: false }}
      activeProps={ACTIVE}
      inactiveProps={is_also ? ACTIVE : {}}
      className="flex h-8 items-center gap-2 rounded-md px-2 text-muted hover:bg-hover hover:text-ink"
    >
      <Icon size={16} aria-hidden />
      {label}
      {to === "/incidents" && <IncidentCount />}
    </Link>
  );
}

const COUNTED_MAX = 100;

/** The number of open incidents that are not acknowledged; red if one of them is critical, "?" if it could not be loaded. */
function IncidentCount() {
  const incidents = useQuery(query("listIncidents", { query: { status: "open", limit: COUNTED_MAX } }));
  const is_stale = useOutage() !== undefined;
  const { data } = incidents;
  const count = data?.items.length ?? 0;
  if (hasFailed(incidents))
    return (
      <span title="Not loaded: the number of open incidents" className="ml-auto px-1.5 text-xs">
        ?
      </span>
    );
  if (data === undefined || count === 0) return null;
  const is_critical = data.items.some(({ severity }) => severity === "critical");
  return (
    <span
      className={cx(
        "ml-auto rounded px-1.5 text-xs font-medium tabular-nums",
        is_critical ? "bg-bad-soft text-bad" : "bg-warn-soft text-warn",
        is_stale && "grayscale",
      )}
    >
      {data.next_cursor === null ? count : `${count}+`}
      <span className="sr-only"> open</span>
    </span>
  );
}

/** The current organization, a switch to others, the account page and sign-out. */
function OrgMenu() {
  const me = useMe();
  const navigate = useNavigate();
  const router = useRouter();
  const go = (work: Promise<unknown>, to: string): void =>
    void work.then(
      // Load all data again: the data in memory belongs to the previous session.
      async () => {
        await router.invalidate();
        await navigate({ to });
      },
      notifyError,
    );
  return (
    <Menu
      label="Organization and account"
      trigger={
        <button type="button" className="m-2 flex min-w-0 items-center gap-2 rounded-md p-2 text-left hover:bg-hover">
          <img src="/icon.svg" alt="" width={24} height={24} />
          <span className="min-w-0 flex-1">
            <TextLine className="font-semibold">{me.org.name}</TextLine>
            <TextLine className="text-xs text-muted">{`${me.actor.name ?? me.token.label ?? me.token.prefix} · ${me.org.role}`}</TextLine>
          </span>
          <ChevronsUpDown size={14} aria-hidden className="text-muted" />
        </button>
      }
      entries={[
        ...me.orgs.map(({ id, name }) => ({
          label: name,
          icon: id === me.org.id ? Check : Blank,
          onSelect: () => id !== me.org.id && go(changeOrg(id), "/"),
        })),
        { label: "Account", onSelect: () => void navigate({ to: "/account" }) },
        { label: "Sign out", sends: true, onSelect: () => go(signOut(), "/sign-in") },
      ]}
    />
  );
}

const THEMES: readonly { theme: Theme; label: string; icon: typeof Sun }[] = [
  { theme: "system", label: "System", icon: Monitor },
  { theme: "light", label: "Light", icon: Sun },
  { theme: "dark", label: "Dark", icon: Moon },
];

function ThemeMenu() {
  const chosen = useTheme();
  const { icon: Icon } = THEMES.find(({ theme }) => theme === chosen)!;
  return (
    <Menu
      label="Theme"
      trigger={
        <button type="button" aria-label="Theme" className="inline-flex size-8 items-center justify-center rounded-md hover:bg-hover">
          <Icon size={16} aria-hidden />
        </button>
      }
      entries={THEMES.map(({ theme, label, icon: Each }) => ({
        label: theme === chosen ? `${label} (selected)` : label,
        icon: Each,
        onSelect: () => chooseTheme(theme),
      }))}
    />
  );
}

const WORDS: Record<Liveness, string> = {
  live: "Live: changes appear without a reload",
  connecting: "Connecting to the server",
  polling: "Not live: refreshed every 5 s",
  stale: "Not live: the server is not responding and the data shown is out of date",
};
const SHORT: Record<Liveness, string> = { live: "Live", connecting: "Connecting", polling: "Not live", stale: "Not live" };
const DOTS: Record<Liveness, string> = { live: "bg-ok", connecting: "bg-line-strong", polling: "bg-warn", stale: "bg-bad" };

/** The mark in the corner: whether changes appear without a reload, and whether data could not be loaded. */
export function LivenessMark() {
  const liveness = useLiveness();
  const has_errors = useHasErrors();
  if (liveness === "live" && has_errors)
    return (
      <span
        role="status"
        title="Some data could not be loaded. The page retries automatically."
        className="inline-flex items-center gap-1.5 text-xs text-muted"
      >
        <span className="size-2 rounded-full bg-warn" />
        Errors
      </span>
    );
  return (
    <span role="status" title={WORDS[liveness]} className="inline-flex items-center gap-1.5 text-xs text-muted">
      <span className={cx("size-2 rounded-full", DOTS[liveness])} />
      {SHORT[liveness]}
    </span>
  );
}
