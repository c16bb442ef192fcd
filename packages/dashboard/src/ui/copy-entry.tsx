import { SquareTerminal } from "lucide-react";
import { copy } from "./copy.tsx";
import type { MenuEntry } from "./menu.tsx";
import { tellDone, tellError } from "./toasts.ts";

/** The entry of a menu that copies the `rf` line of what the page shows or does. */
export const copyAsRf = (line: string, label = "Copy as rf"): MenuEntry => ({
  label,
  icon: <SquareTerminal size={14} aria-hidden />,
  onSelect: () => void copy(line).then(() => tellDone("Copied for the terminal"), tellError),
});
