import type { SavedView } from "@roamfleet/protocol/routes";
import type { ViewPage } from "@roamfleet/protocol/states";
import { useState } from "react";
import { ConfirmAction } from "../../api/action-dialogs.tsx";
import { useAction } from "../../api/queries.ts";
import { useOpenView } from "../../api/saved-views.ts";
import { useMayInWholeOrg } from "../../api/session.ts";
import { FormDialog, NameInput, Switch, Text } from "../../ui/index.ts";

interface ViewDialogProps {
  view: SavedView;
  onClose: () => void;
}

/** Asks for the name of a new view, and whether to share it. */
export function SaveView({ page, query, onClose }: { page: ViewPage; query: string; onClose: () => void }) {
  const may_share = useMayInWholeOrg("operator");
  const openView = useOpenView();
  const [name, setName] = useState("");
  const [shared, setShared] = useState(false);
  const saving = useAction("createView", {
    quiet: true,
    done: "View saved",
    onSuccess: ({ data }) => {
      openView(data);
      onClose();
    },
  });
  return (
    <FormDialog
      title="Save view"
      description="A view has the filters, sorting and columns that the page shows now."
      verb="Save"
      locked={name.trim() === ""}
      sending={saving}
      onClose={onClose}
      onSubmit={() => saving.mutate({ body: { page, name: name.trim(), query, shared } })}
    >
      <NameInput value={name} onValue={setName} autoFocus />
      {may_share && (
        <Switch
          label="Share with the organization"
          checked={shared}
          onChange={setShared}
          hint="All members see its name and filters. Operators can change it."
        />
      )}
    </FormDialog>
  );
}

export function RenameView({ view, onClose }: ViewDialogProps) {
  const [name, setName] = useState(view.name);
  const renaming = useAction("updateView", { quiet: true, done: "View renamed", onSuccess: onClose });
  return (
    <FormDialog
      title="Rename view"
      verb="Rename"
      locked={name.trim() === ""}
      sending={renaming}
      onClose={onClose}
      onSubmit={() => renaming.mutate({ params: { id: view.id }, body: { name: name.trim() } })}
    >
      <NameInput value={name} onValue={setName} autoFocus />
    </FormDialog>
  );
}

/** Asks for confirmation to share a view with the organization, or to stop sharing it. */
export const ShareView = ({ view: { id, shared }, onClose }: ViewDialogProps) => (
  <ConfirmAction
    route="updateView"
    args={{ params: { id }, body: { shared: !shared } }}
    quiet
    title={shared ? "Stop sharing view?" : "Share view?"}
    consequence={
      shared
        ? "The view becomes yours, and all other members lose it."
        : "All members of the organization see the name and the filters of the view. Operators can change it."
    }
    verb={shared ? "Stop sharing" : "Share"}
    done={shared ? "View no longer shared" : "View shared"}
    onClose={onClose}
  />
);

export const DeleteView = ({ view: { id, name, shared }, onClose }: ViewDialogProps) => (
  <ConfirmAction
    route="deleteView"
    args={{ params: { id } }}
    quiet
    danger
    title="Delete view?"
    consequence={
      <>
        “<Text>{name}</Text>” is deleted{shared && " for all members of the organization"}. The page keeps its filters.
      </>
    }
    verb="Delete view"
    done="View deleted"
    onClose={onClose}
  />
);
