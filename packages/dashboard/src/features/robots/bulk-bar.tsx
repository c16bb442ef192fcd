import { FolderInput, Tags, X } from "lucide-react";
import { useState } from "react";
import type { Robot } from "@roamfleet/protocol/routes";
import { Button, IconButton, Menu, copyAsRf } from "../../ui/index.ts";
import { bulkCommand } from "./bulk-change.ts";
import { BulkLabelsDialog } from "./bulk-labels-dialog.tsx";
import { BulkMoveDialog } from "./bulk-move-dialog.tsx";
import type { Places } from "./place-names.ts";

const ICON = { size: 14, "aria-hidden": true } as const;

interface BulkBarProps {
  robots: readonly Robot[];
  places: Places;
  onClear: () => void;
  /** Selects all robots that match the filters. Undefined if all of them are loaded. */
  onSelectAll?: () => Promise<void>;
}

/** The actions on the selected robots. */
export function BulkBar({ robots, places, onClear, onSelectAll }: BulkBarProps) {
  const [shown, setShown] = useState<"labels" | "move">();
  const [is_loading, setLoading] = useState(false);
  const selectAll = (): void => {
    setLoading(true);
    void onSelectAll?.().finally(() => setLoading(false));
  };
  const close = (): void => setShown(undefined);
  const ids = robots.map(({ id }) => id);
  return (
    <div
      role="region"
      aria-label="Selected robots"
      className="mb-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent bg-accent-soft px-3 py-1.5"
    >
      <span className="font-medium tabular-nums" role="status">
        {`${robots.length.toLocaleString()} ${robots.length === 1 ? "robot" : "robots"} selected`}
      </span>
      {onSelectAll !== undefined && (
        <Button look="quiet" busy={is_loading} onClick={selectAll}>
          Select all matching robots
        </Button>
      )}
      <Button icon={<Tags {...ICON} />} disabled={is_loading} onClick={() => setShown("labels")}>
        Labels
      </Button>
      <Button icon={<FolderInput {...ICON} />} disabled={is_loading} onClick={() => setShown("move")}>
        Move
      </Button>
      <Menu
        label="Actions for the selected robots"
        entries={[
          copyAsRf(bulkCommand(ids, { labels: { set: { KEY: "VALUE" } } }), "Copy rf label command"),
          copyAsRf(bulkCommand(ids, { fleet_id: "FLEET" }), "Copy rf move command"),
          copyAsRf(ids.join("\n"), "Copy IDs"),
        ]}
      />
      <IconButton label="Clear selection" icon={<X {...ICON} />} onClick={onClear} className="ml-auto" />
      {shown === "labels" && <BulkLabelsDialog robots={robots} onClose={close} />}
      {shown === "move" && <BulkMoveDialog robots={robots} places={places} onClose={close} />}
    </div>
  );
}
