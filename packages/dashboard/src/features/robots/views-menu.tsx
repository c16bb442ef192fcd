import { useNavigate } from "@tanstack/react-router";
import { Bookmark, Check, Link2, Save, Trash2 } from "lucide-react";
import { useState } from "react";
import { useMe } from "../../api/session.ts";
import { Button, Dialog, Menu, TextInput, tellDone, tellError } from "../../ui/index.ts";
import { copy } from "../../ui/copy.tsx";
import { isFiltered, type RobotsSearch } from "./robots-search.ts";
import { isSameView, useSavedViews, withView } from "./saved-views.ts";

const ICON = { size: 14, "aria-hidden": true } as const;
const BLANK = <span className="size-3.5" />;

/** The menu of saved views. They are stored in this browser and shared by link. */
export function ViewsMenu({ search }: { search: RobotsSearch }) {
  const navigate = useNavigate();
  const [views, keep] = useSavedViews(useMe().org.id);
  const [is_naming, setNaming] = useState(false);
  const shown = views.find((view) => isSameView(view.search, search));
  const can_save = shown === undefined && (isFiltered(search) || search.sort !== undefined);
  return (
    <>
      <Menu
        label="Views"
        trigger={
          <Button icon={<Bookmark {...ICON} />} className="max-w-56">
            <span className="truncate">{shown?.name ?? "Views"}</span>
          </Button>
        }
        entries={[
          {
            label: "All robots",
            icon: isFiltered(search) ? BLANK : <Check {...ICON} />,
            onSelect: () => void navigate({ to: "/robots", search: {} }),
          },
          ...views.map(({ name, search: of }) => ({
            label: name,
            icon: name === shown?.name ? <Check {...ICON} /> : BLANK,
            onSelect: () => void navigate({ to: "/robots", search: of }),
          })),
          can_save && { label: "Save view…", icon: <Save {...ICON} />, onSelect: () => setNaming(true) },
          {
            label: "Copy link to this view",
            icon: <Link2 {...ICON} />,
            onSelect: () => void copy(window.location.href).then(() => tellDone("Link copied"), tellError),
          },
          shown !== undefined && {
            label: `Delete “${shown.name}”`,
            icon: <Trash2 {...ICON} />,
            danger: true,
            onSelect: () => keep(views.filter(({ name }) => name !== shown.name)),
          },
        ]}
      />
      {is_naming && (
        <NameView
          taken={views.map(({ name }) => name)}
          onClose={() => setNaming(false)}
          onSave={(name) => keep(withView(views, { name, search }))}
        />
      )}
    </>
  );
}

function NameView({ taken, onClose, onSave }: { taken: readonly string[]; onClose: () => void; onSave: (name: string) => void }) {
  const [name, setName] = useState("");
  const trimmed = name.trim();
  return (
    <Dialog open onClose={onClose} title="Save view" description="The view is saved in this browser. To share it, send its link.">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (trimmed === "") return;
          onSave(trimmed);
          onClose();
        }}
      >
        <TextInput
          label="Name"
          value={name}
          maxLength={80}
          autoFocus
          onChange={(event) => setName(event.target.value)}
          hint={taken.includes(trimmed) ? "Replaces the existing view with this name." : undefined}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" disabled={trimmed === ""}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
