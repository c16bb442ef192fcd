import { SquareTerminal } from "lucide-react";
import { copy } from "./copy.tsx";
import type { MenuEntry } from "./menu.tsx";
import { tellDone, tellError } from "./toasts.ts";

/** Returns a menu entry that copies the `rf` command for what the page shows or does. */
export const copyAsRf = (line: string, label = "Copy rf command"): MenuEntry => ({
  label,
  icon: <SquareTerminal size={14} aria-hidden />,
  onSelect: () => void copy(line).then(() => tellDone("Command copied"), tellError),
});
