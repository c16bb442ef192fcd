import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { PLACES } from "./places.ts";

/** Maximum time between the two keys of a sequence. */
const PAIR_MS = 1_000;

/** Whether the focus is in an input, dialog, menu or terminal, which handle keys themselves. */
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
