import { useState } from "react";
import { ConfirmDialog } from "./dialog.tsx";
import { NameInput } from "./field.tsx";
import { FormDialog, type Sending } from "./form-dialog.tsx";

/** Asks for a new name. */
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
  /** Returns the equivalent `rf` command for the typed name. */
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

/** Deletes a fleet or a site after its name is typed. If it is not empty, shows what it contains instead. */
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
  /** What it contains and a link there; false if it is empty. */
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
      title={`Delete ${kind}?`}
      consequence={`${consequence} This cannot be undone.`}
      verb={`Delete ${kind}`}
      danger
      type_to_confirm={name}
      command={command}
      busy={busy}
      onConfirm={onDelete}
    />
  );
}
