import { type ReactNode, useId } from "react";
import { Button } from "./button.tsx";
import { Command } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";

/** What of a mutation the form shows. */
export interface Sending {
  isPending: boolean;
  error: Error | null;
}

export interface FormDialogProps {
  onClose: () => void;
  title: string;
  description?: ReactNode;
  /** On the button: what it does. */
  verb: string;
  sending: Sending;
  /** Why it was refused, where the fields do not say it: by default whatever the sending says. */
  error?: Error | null;
  /** What was filled in so far cannot be sent. */
  locked?: boolean;
  /** The same by `rf`. */
  command?: string | undefined;
  wide?: boolean;
  onSubmit: () => void;
  children: ReactNode;
}

/** Fields that are sent together: Enter sends them, and a refusal is told beside them. Render it while it is open. */
export function FormDialog({
  onClose,
  title,
  description,
  verb,
  sending,
  error = sending.error,
  locked = false,
  onSubmit,
  ...rest
}: FormDialogProps) {
  const id = useId();
  return (
    <Dialog
      open
      onClose={onClose}
      title={title}
      description={description}
      wide={rest.wide ?? false}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" type="submit" form={id} busy={sending.isPending} disabled={locked}>
            {verb}
          </Button>
        </>
      }
    >
      <form
        id={id}
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {rest.children}
      </form>
      {error !== null && (
        <p role="alert" className="mb-3 text-bad [overflow-wrap:anywhere]">
          {error.message}
        </p>
      )}
      {rest.command !== undefined && <Command>{rest.command}</Command>}
    </Dialog>
  );
}
