import { useState } from "react";
import { ConfirmDialog } from "./dialog.tsx";
import { NameInput } from "./field.tsx";
import { FormDialog, type Sending } from "./form-dialog.tsx";

/** Gives something another name. */
export function RenameDialog({
  title,
  name: before,
  onClose,
  sending,
  command,
  onRename,
}: {
  title: string;
  name: string;
  onClose: () => void;
  sending: Sending;
  /** The same by `rf`, with the name as it was typed. */
  command: (name: string) => string;
  onRename: (name: string) => void;
}) {
  const [name, setName] = useState(before);
  return (
    <FormDialog
      title={title}
      verb="Rename"
      onClose={onClose}
      sending={sending}
      command={command(name)}
      onSubmit={() => onRename(name.trim())}
    >
      <NameInput value={name} onChange={setName} autoFocus />
    </FormDialog>
  );
}

/** Deletes a fleet or a site: the name has to be typed. What is not empty cannot be deleted, and is shown instead. */
export function DeletePlaceDialog({
  kind,
  name,
  full,
  consequence,
  command,
  busy,
  onDelete,
  onClose,
}: {
  kind: string;
  name: string;
  /** What is in it, if anything, and where to see that. */
  full: { text: string; verb: string; onShow: () => void } | false;
  consequence: string;
  command: string;
  busy: boolean;
  onDelete: () => void;
  onClose: () => void;
}) {
  if (full !== false)
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
      title={`Delete the ${kind}?`}
      consequence={`${consequence} This cannot be taken back.`}
      verb="Delete it"
      danger
      type_to_confirm={name}
      command={command}
      busy={busy}
      onConfirm={onDelete}
    />
  );
}
