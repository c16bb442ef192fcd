import { Dialog } from "@base-ui/react/dialog";
import type { JsonRouteName } from "@roamfleet/sdk/browser";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Bookmark, Bot, Boxes, FileCog, type LucideIcon, MapPin, Package, Plus, Rocket, SquareTerminal } from "lucide-react";
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from "react";
import { api } from "../api/client.ts";
import { query } from "../api/queries.ts";
import { useOpenView } from "../api/saved-views.ts";
import { useMay } from "../api/session.ts";
import { cx, TextLine } from "../ui/index.ts";
import { type Entry, useActionEntries } from "./palette-actions.ts";
import { readVerb } from "./palette-verb.ts";
import { ADMIN_PLACE, PLACES } from "./places.ts";

const FOUND_MAX = 6;
const ICON = { size: 16, "aria-hidden": true } as const;

/** The command palette (Ctrl-K): pages, actions, and robots, fleets and releases by name. A verb before a name acts on the object. */
export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-overlay" />
        <Dialog.Popup className="fixed top-[12dvh] left-1/2 z-40 flex max-h-[min(70dvh,calc(86dvh-var(--toasts,0px)))] w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 flex-col overflow-hidden rounded-lg border border-line bg-raised shadow-raised">
          <Dialog.Title className="sr-only">Search or run a command</Dialog.Title>
          <Finder onClose={onClose} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Finder({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const found_for = useDeferredValue(text.trim());
  const { entries, error, is_searching } = useEntries(found_for);
  const is_current = found_for === text.trim();
  /** Enter was pressed before the entries were those of the text. */
  const is_entered = useRef(false);
  const chosen = Math.min(at, entries.length - 1);
  const open = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    onClose();
    if (entry.run !== undefined) entry.run();
    else void navigate({ to: entry.to, search: entry.search } as never);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") {
      if (is_current) open(entries[chosen]);
      else is_entered.current = true;
    }
  };
  useEffect(() => {
    if (!is_entered.current || !is_current) return;
    is_entered.current = false;
    open(entries[chosen]);
  });
  return (
    <>
      <input
        role="combobox"
        aria-label="Search robots, fleets, releases, saved views and pages"
        aria-expanded
        aria-controls="palette-list"
        aria-activedescendant={chosen >= 0 ? `palette-${chosen}` : undefined}
        placeholder="Search or run a command"
        className="h-12 w-full border-b border-line bg-transparent px-4 outline-none placeholder:text-muted"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      {error !== null && (
        <p role="alert" className="border-b border-line px-4 py-2 text-bad [overflow-wrap:anywhere]">
          Search failed: {error.message}. Robots, fleets and releases may be missing.
        </p>
      )}
      <Results
        entries={entries}
        none={error !== null ? "No matching pages or actions" : is_searching ? "Searching…" : "No matches"}
        chosen={chosen}
        onChoose={setAt}
        onOpen={open}
      />
    </>
  );
}

interface ResultsProps {
  entries: readonly Entry[];
  /** Text that is shown without entries. */
  none: string;
  chosen: number;
  onChoose: (index: number) => void;
  onOpen: (entry: Entry) => void;
}

function Results({ entries, none, chosen, onChoose, onOpen }: ResultsProps) {
  // The fade at the lower edge shows that the list scrolls. The padding keeps the last entry above it.
  return (
    <ul
      id="palette-list"
      role="listbox"
      aria-label="Results"
      className="min-h-0 flex-1 scroll-pb-6 overflow-y-auto [mask-image:linear-gradient(to_top,transparent,black_1.5rem)] p-1 pb-6"
    >
      {entries.map((entry, index) => (
        <li
          key={entry.key}
          id={`palette-${index}`}
          role="option"
          aria-selected={index === chosen}
          ref={(element) => {
            if (index === chosen) element?.scrollIntoView({ block: "nearest" });
          }}
          onClick={() => onOpen(entry)}
          onMouseMove={() => onChoose(index)}
          className={cx("flex h-9 cursor-pointer items-center gap-3 rounded px-3", index === chosen && "bg-active")}
        >
          <entry.icon {...ICON} className="text-muted" />
          <TextLine className="flex-1">{entry.label}</TextLine>
          <span className="shrink-0 text-xs text-muted">{entry.hint}</span>
        </li>
      ))}
      {entries.length === 0 && (
        <li role="option" aria-selected={false} aria-disabled className="p-4 text-center text-muted">
          {none}
        </li>
      )}
    </ul>
  );
}

interface Found {
  entries: Entry[];
  /** Why a search failed; null if none did. */
  error: Error | null;
  is_searching: boolean;
}

function useEntries(text: string): Found {
  const is_operator = useMay("operator");
  const is_admin = useMay("admin");
  const asked = { enabled: text !== "" };
  const robots = useQuery({ ...query("listRobots", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const fleets = useQuery({ ...query("listFleets", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const releases = useQuery({ ...query("listReleases", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const views = useViewEntries(text);
  const by_id = useEntryOf(text);
  const { verb, name } = readVerb(text);
  const acts = useActionEntries(verb, name);
  const places = [...PLACES.flatMap((group) => group.places), ADMIN_PLACE]
    .filter(({ role }) => role === undefined || is_admin)
    .map(({ label, to, icon }) => ({ key: to, label, hint: "page", icon, to }));
  const actions: Entry[] = is_operator
    ? [
        { key: "deploy", label: "Deploy a release", hint: "action", icon: Rocket, to: "/deployments/new" },
        { key: "enroll", label: "Enroll robots", hint: "action", icon: Plus, to: "/enrollment" },
        { key: "push", label: "Push a release", hint: "action", icon: Plus, to: "/releases" },
      ]
    : [];
  const lower = text.toLowerCase();
  const shown = (kind: "rob" | "fleet" | "rel", items: readonly { id: string; name?: string; tag?: string }[] = []): Entry[] =>
    text === "" ? [] : items.map((item) => entryOf(KINDS[kind]!, item));
  const searches = text === "" ? [] : [robots, fleets, releases];
  const entries = [
    ...(by_id === undefined ? [] : [by_id]),
    // A verb alone may also be the start of a page's name, such as "dep".
    ...(name === "" ? [] : acts),
    ...shown("rob", robots.data?.items),
    ...shown("fleet", fleets.data?.items),
    ...shown("rel", releases.data?.items),
    ...[...places, ...actions, ...views].filter(({ label }) => label.toLowerCase().includes(lower)),
    ...(name === "" ? acts : []),
  ];
  return {
    entries,
    error: searches.find(({ failureReason }) => failureReason !== null)?.failureReason ?? null,
    is_searching: searches.some(({ isPending }) => isPending),
  };
}

/** Returns the saved views of pages that the user may see; none without text. */
function useViewEntries(text: string): Entry[] {
  const is_admin = useMay("admin");
  const open = useOpenView();
  const views = useQuery({ ...query("listViews"), enabled: text !== "" }).data?.items ?? [];
  if (text === "") return [];
  return views
    .filter(({ page }) => page !== "audit" || is_admin)
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map((view) => ({ key: view.id, label: view.name, hint: `view of ${view.page}`, icon: Bookmark, run: () => open(view) }));
}

const ID = /^(?<kind>[a-z]+)_[0-9a-z]{26}$/;

/** Object types by the prefix of their IDs. */
interface ObjectKind {
  route: JsonRouteName;
  hint: string;
  icon: LucideIcon;
  to: string;
}
const KINDS: Record<string, ObjectKind> = {
  rob: { route: "getRobot", hint: "robot", icon: Bot, to: "/robots/" },
  fleet: { route: "getFleet", hint: "fleet", icon: Boxes, to: "/fleets/" },
  site: { route: "getSite", hint: "site", icon: MapPin, to: "/sites/" },
  rel: { route: "getRelease", hint: "release", icon: Package, to: "/releases/" },
  dep: { route: "getDeployment", hint: "deployment", icon: Rocket, to: "/deployments/" },
  cdep: { route: "getConfigDeployment", hint: "config deployment", icon: Rocket, to: "/config-deployments/" },
  cfg: { route: "getConfig", hint: "config", icon: FileCog, to: "/configs/" },
  shl: { route: "getShellSession", hint: "shell session", icon: SquareTerminal, to: "/shells/" },
};

interface FoundObject {
  id: string;
  name?: string;
  tag?: string;
  release?: { tag: string };
}

const entryOf = ({ hint, icon, to }: ObjectKind, { id, name, tag, release }: FoundObject): Entry => ({
  key: id,
  label: name ?? tag ?? release?.tag ?? id,
  hint,
  icon,
  to: `${to}${id}`,
});

/** Returns the entry for a pasted ID, in upper or lower case; undefined for other text, while loading, and for unknown IDs. */
function useEntryOf(text: string): Entry | undefined {
  const id = text.trim().toLowerCase();
  const kind = KINDS[ID.exec(id)?.groups?.["kind"] ?? ""];
  const found = useQuery({
    queryKey: ["paletteId", id],
    queryFn: async ({ signal }) => ((await api.call(kind!.route, { params: { id }, signal } as never)) as { body: unknown }).body,
    enabled: kind !== undefined,
    retry: false,
  }).data as { data: FoundObject } | undefined;
  if (kind === undefined || found === undefined) return undefined;
  return entryOf(kind, { ...found.data, id });
}
