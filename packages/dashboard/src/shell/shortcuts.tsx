import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { Dialog } from "../ui/index.ts";
import { PLACES } from "./places.ts";

/** Maximum time between the two keys of a sequence. */
const PAIR_MS = 1_000;

/** Whether the focus is in an input, dialog, menu or terminal. These handle keys themselves, so global shortcuts do not apply. */
const isTyping = (target: EventTarget | null): boolean =>
  target instanceof Element && target.closest("input, textarea, select, [contenteditable], [role=dialog], [role=menu], .xterm") !== null;

/** Handles global shortcuts: `g` and a letter opens a page, `/` searches, `?` shows help, Ctrl-K (or ⌘K) opens the palette. */
export function useShortcuts({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }): void {
  const navigate = useNavigate();
  useEffect(() => {
    let g_at = -PAIR_MS;
    const press = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !isTerminal(event.target)) {
        event.preventDefault();
        return onPalette();
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.timeStamp - g_at < PAIR_MS) {
        g_at = -PAIR_MS;
        const place = PLACES.flatMap(({ places }) => places).find(({ key }) => key === event.key);
        if (place !== undefined) return void navigate({ to: place.to });
      }
      if ((event.key === "j" || event.key === "k") && focusTable(event.target)) return event.preventDefault();
      if (event.key === "g") g_at = event.timeStamp;
      else if (event.key === "?") onHelp();
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-search]");
        if (search === null) return onPalette();
        event.preventDefault();
        search.focus();
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [navigate, onPalette, onHelp]);
}

/** Focuses the first visible row of the page's table. Returns false if the focus is already inside or there is no row. */
function focusTable(target: EventTarget | null): boolean {
  if (target instanceof Element && target.closest("[role=grid]") !== null) return false;
  const grid = document.querySelector("main [role=grid]");
  const top = grid?.getBoundingClientRect().top ?? 0;
  const rows = [...(grid?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
  const row = rows.find((one) => one.getBoundingClientRect().top >= top) ?? rows[0];
  row?.focus();
  return row !== undefined;
}

/** Whether the focus is in a robot's terminal, which receives every key. */
const isTerminal = (target: EventTarget | null): boolean => target instanceof Element && target.closest(".xterm") !== null;

const GENERAL: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Search or run a command"],
  ["/", "Search on this page"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open row"],
  ["x", "Select row"],
  ["Esc", "Close dialog or menu"],
  ["?", "Show this help"],
];

export function ShortcutHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const places = PLACES.flatMap((group) => group.places);
  return (
    <Dialog open={open} onClose={onClose} title="Keyboard shortcuts" wide>
      <div className="grid gap-6 sm:grid-cols-2">
        <Keys keys={GENERAL} />
        <Keys keys={places.map(({ key, label }) => [`g ${key}`, `Go to ${label}`] as const)} />
      </div>
      <p className="mt-4 border-t border-line pt-3 text-muted">
        Everything in the dashboard is also available in the API and in <code className="font-mono">rf</code>:{" "}
        <a href="/docs" className="text-accent underline">
          API reference
        </a>
        .
      </p>
    </Dialog>
  );
}

function Keys({ keys }: { keys: readonly (readonly [string, string])[] }) {
  return (
    <dl className="grid grid-cols-[5rem_1fr] gap-y-1.5">
      {keys.map(([key, text]) => (
        <div key={key} className="contents">
          <dt>
            <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs">{key}</kbd>
          </dt>
          <dd className="text-muted">{text}</dd>
        </div>
      ))}
    </dl>
  );
}
