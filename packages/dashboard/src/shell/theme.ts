import { createStore } from "../ui/store.ts";

export type Theme = "system" | "light" | "dark";
const KEY = "roamfleet.theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const stored = localStorage.getItem(KEY);
const theme = createStore<Theme>(stored === "light" || stored === "dark" ? stored : "system");

function show(): void {
  document.documentElement.dataset.theme = theme.get() === "system" ? (dark.matches ? "dark" : "light") : theme.get();
}

/** Applies the theme before the first paint, and again when the system's color scheme changes. */
export function followTheme(): void {
  show();
  dark.addEventListener("change", show);
}

export function chooseTheme(next: Theme): void {
  if (next === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, next);
  theme.set(next);
  show();
}

export const useTheme = theme.use;
