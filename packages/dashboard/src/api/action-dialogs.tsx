import type { JsonRouteName, Rest } from "@roamfleet/sdk/browser";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ConfirmDialog, type ConfirmDialogProps, ErrorText, FormDialog, NameInput } from "../ui/index.ts";
import { type ActionOptions, useAction } from "./queries.ts";

type Props<N extends JsonRouteName> = Omit<ConfirmDialogProps, "open" | "busy" | "onConfirm"> &
  ActionOptions<N> & {
    /** The route that the confirmed action calls, and its arguments. */
    route: N;
    args: Rest<N>[0];
  };

/**
 * Asks for confirmation of an action and performs it. The dialog closes after success. With `quiet`, it shows errors in the dialog instead
 * of as notifications.
 */
export function ConfirmAction<N extends JsonRouteName>({ route, args, done, quiet = false, onSuccess, children, ...dialog }: Props<N>) {
  const action = useAction(route, { ...(done === undefined ? {} : { done }), quiet, onSuccess: onSuccess ?? dialog.onClose });
  return (
    <ConfirmDialog open {...dialog} busy={action.isPending} onConfirm={() => action.mutate(args)}>
      {children}
      {quiet && <ErrorText error={action.error} className="mt-2" />}
    </ConfirmDialog>
  );
}

interface PlaceProps {
  kind: "fleet" | "site";
  id: string;
  name: string;
  onClose: () => void;
}

/** Asks for a new name of a fleet or a site. `command` returns the equivalent `rf` command for the typed name. */
export function RenamePlace({ kind, id, name: before, onClose, command }: PlaceProps & { command: (name: string) => string }) {
  const [name, setName] = useState(before);
  const renaming = useAction(kind === "fleet" ? "updateFleet" : "updateSite", { quiet: true, done: "Renamed", onSuccess: onClose });
  return (
    <FormDialog
      title={`Rename ${kind}`}
      verb="Rename"
      onClose={onClose}
      sending={renaming}
      command={command(name)}
      onSubmit={() => renaming.mutate({ params: { id }, body: { name: name.trim() } })}
    >
      <NameInput value={name} onValue={setName} autoFocus />
    </FormDialog>
  );
}

interface DeleteProps extends PlaceProps {
  /**
   * The contents of the fleet or site: `text` describes them, and a button with the text `verb` shows them. False if empty, undefined while
   * unknown.
   */
  full: { text: string; verb: string; onShow: () => void } | false | undefined;
  consequence: string;
  command: string;
}

/** Deletes a fleet or a site after the user has typed its name. If the fleet or site is not empty, shows its contents instead. */
export function DeletePlace({ kind, id, name, full, consequence, command, onClose }: DeleteProps) {
  const navigate = useNavigate();
  const deleting = useAction(kind === "fleet" ? "deleteFleet" : "deleteSite", {
    done: "Deleted",
    onSuccess: () => {
      onClose();
      void navigate({ to: kind === "fleet" ? "/fleets" : "/sites" });
    },
  });
  if (full !== false && full !== undefined)
    return (
      <ConfirmDialog
        open
        onClose={onClose}
        title={`This ${kind} is not empty`}
        consequence={full.text}
        verb={full.verb}
        onConfirm={full.onShow}
      />
    );
  return (
    <ConfirmDialog
      open
      onClose={onClose}
      title={`Delete ${kind}?`}
      consequence={`${consequence} This cannot be undone.`}
      verb={`Delete ${kind}`}
      danger
      type_to_confirm={name}
      command={command}
      busy={deleting.isPending || full === undefined}
      onConfirm={() => deleting.mutate({ params: { id } })}
    />
  );
}
