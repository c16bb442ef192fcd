import { type LucideIcon, Plus } from "lucide-react";
import { Button } from "./button.tsx";
import { copyAsRf } from "./copy-entry.tsx";
import { Menu } from "./menu.tsx";

/** The actions of a list page: the create button, if the user may create, and the list's `rf` command. */
export function ListActions({
  verb,
  icon: Icon = Plus,
  onMake,
  command,
}: {
  verb: string;
  icon?: LucideIcon;
  /** Undefined if the user may not create. */
  onMake: (() => void) | undefined;
  command: string;
}) {
  return (
    <>
      {onMake !== undefined && (
        <Button look="primary" busy={false} icon={<Icon size={14} aria-hidden />} onClick={onMake}>
          {verb}
        </Button>
      )}
      <Menu label="More" entries={[copyAsRf(command)]} />
    </>
  );
}
