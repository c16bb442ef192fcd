import { Menu as Base } from "@base-ui/react/menu";
import { Ellipsis, Plus, SquareTerminal } from "lucide-react";
import { Fragment, type ReactElement, type ReactNode, useState } from "react";
import { Button, type Icon } from "./button.tsx";
import { copy } from "./copy.tsx";
import { useOutage } from "./outage.ts";
import { cx, TextLine } from "./text.tsx";
import { notifyDone, notifyError } from "./toasts.tsx";

export interface MenuEntry {
  label: string;
  /** Identifies the entry. Set it if several entries may have the same label. */
  key?: string;
  /** Shown in gray after the label. */
  hint?: string | undefined;
  /** Whether a line separates the entry from those above. */
  divided?: boolean;
  icon?: Icon | undefined;
  onSelect?: () => void;
  /** Renders the dialog that the entry opens. Use it instead of `onSelect`. */
  renderDialog?: (onClose: () => void) => ReactNode;
  danger?: boolean;
  disabled?: boolean;
  /** Whether the entry sends a request. An outage disables it, like entries with a dialog. */
  sends?: boolean;
}

const keyOf = ({ key, label }: MenuEntry): string => key ?? label;

/** Takes the place of an icon beside entries with icons. */
export const Blank = () => <span className="size-3.5 shrink-0" />;

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
  const [chosen, setChosen] = useState<MenuEntry>();
  const is_outage = useOutage() !== undefined;
  // Look the entry up again, so that its open dialog shows current data. Keep the dialog open even if the entry disappears.
  const opened = chosen === undefined ? undefined : (shown.find((entry) => keyOf(entry) === keyOf(chosen)) ?? chosen);
  const own = (
    <button type="button" aria-label={label} className="inline-flex size-8 items-center justify-center rounded-md hover:bg-hover">
      <Ellipsis size={16} aria-hidden />
    </button>
  );
  return (
    <>
      <Base.Root>
        <Base.Trigger render={trigger ?? own} />
        <Base.Portal>
          <Base.Positioner align="end" sideOffset={4} className="z-50">
            <Base.Popup className="max-h-[var(--available-height)] min-w-44 overflow-y-auto rounded-md border border-line bg-raised p-1 shadow-raised">
              {shown.map((entry) => (
                <Fragment key={keyOf(entry)}>
                  {entry.divided === true && <Base.Separator className="my-1 h-px bg-line" />}
                  <Base.Item
                    disabled={entry.disabled === true || (is_outage && (entry.sends === true || entry.renderDialog !== undefined))}
                    onClick={() => (entry.renderDialog === undefined ? entry.onSelect?.() : setChosen(entry))}
                    className={cx(
                      "flex min-h-8 items-center gap-2 rounded px-2 outline-none select-none data-disabled:opacity-50 data-highlighted:bg-hover",
                      entry.danger === true && "text-bad",
                    )}
                  >
                    {entry.icon !== undefined && <entry.icon size={14} aria-hidden />}
                    <TextLine className="max-w-72 flex-1">{entry.label}</TextLine>
                    {entry.hint !== undefined && <span className="text-xs text-muted">{entry.hint}</span>}
                  </Base.Item>
                </Fragment>
              ))}
            </Base.Popup>
          </Base.Positioner>
        </Base.Portal>
      </Base.Root>
      {opened?.renderDialog?.(() => setChosen(undefined))}
    </>
  );
}

/** Returns a menu entry that copies the `rf` command for what the page shows or does. */
export const copyAsRf = (line: string, label = "Copy rf command"): MenuEntry => ({
  label,
  icon: SquareTerminal,
  onSelect: () => void copy(line).then(() => notifyDone("Command copied"), notifyError),
});

/** The actions of a list page: a button that opens the create dialog, if the user may create, and the list's `rf` command. */
export function ListActions({
  verb,
  icon = Plus,
  renderDialog,
  command,
}: {
  verb: string;
  icon?: Icon;
  /** Renders the create dialog; false if the user's role does not allow creating objects. */
  renderDialog: ((onClose: () => void) => ReactNode) | false;
  command: string;
}) {
  const [is_open, setOpen] = useState(false);
  return (
    <>
      {renderDialog !== false && (
        <Button look="primary" busy={false} icon={icon} onClick={() => setOpen(true)}>
          {verb}
        </Button>
      )}
      <Menu label="More" entries={[copyAsRf(command)]} />
      {is_open && renderDialog !== false && renderDialog(() => setOpen(false))}
    </>
  );
}
