import { Menu as Base } from "@base-ui/react/menu";
import { Ellipsis } from "lucide-react";
import type { ReactElement, ReactNode } from "react";
import { cx } from "./class-names.ts";

export interface MenuEntry {
  label: string;
  icon?: ReactNode;
  onSelect: () => void;
  danger?: boolean;
  disabled?: boolean;
}

/** A menu of actions. Without `trigger`, its button is "⋯". Entries that are `false` or `undefined` are left out. */
export function Menu({
  label,
  entries,
  trigger,
}: {
  label: string;
  entries: readonly (MenuEntry | false | undefined)[];
  trigger?: ReactElement;
}) {
  const shown = entries.filter((entry) => entry !== false && entry !== undefined);
  const own = (
    <button type="button" aria-label={label} className="inline-flex size-8 items-center justify-center rounded-md hover:bg-hover">
      <Ellipsis size={16} aria-hidden />
    </button>
  );
  return (
    <Base.Root>
      <Base.Trigger render={trigger ?? own} />
      <Base.Portal>
        <Base.Positioner align="end" sideOffset={4} className="z-50">
          <Base.Popup className="max-h-[var(--available-height)] min-w-44 overflow-y-auto rounded-md border border-line bg-raised p-1 shadow-raised">
            {shown.map(({ label: text, icon, onSelect, danger = false, disabled = false }) => (
              <Base.Item
                key={text}
                disabled={disabled}
                onClick={onSelect}
                className={cx(
                  "flex min-h-8 items-center gap-2 rounded px-2 outline-none select-none data-disabled:opacity-50 data-highlighted:bg-hover",
                  danger && "text-bad",
                )}
              >
                {icon}
                {text}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
