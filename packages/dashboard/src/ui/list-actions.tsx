import { type LucideIcon, Plus } from "lucide-react";
import { Button } from "./button.tsx";
import { copyAsRf } from "./copy-entry.tsx";
import { Menu } from "./menu.tsx";

/** At the head of a list: makes one more, for those who may, and the list by `rf`. */
export function ListActions({
  verb,
  icon: Icon = Plus,
  onMake,
  command,
}: {
  verb: string;
  icon?: LucideIcon;
  /** Absent: they may not. */
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
