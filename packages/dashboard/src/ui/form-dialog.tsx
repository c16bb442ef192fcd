import { type ReactNode, useId } from "react";
import { Button } from "./button.tsx";
import { Command } from "./copy.tsx";
import { Dialog } from "./dialog.tsx";

/** The part of a mutation's state that the form shows. */
export interface Sending {
  isPending: boolean;
  error: Error | null;
}

export interface FormDialogProps {
  onClose: () => void;
  title: string;
  description?: ReactNode;
  /** The text of the submit button. */
  verb: string;
  sending: Sending;
  /** An error that no field shows. Default: the error of `sending`. */
  error?: Error | null;
  /** Whether the current input is incomplete or invalid: disables the submit button. */
  locked?: boolean;
  /** The equivalent `rf` command. */
  command?: string | undefined;
  wide?: boolean;
  onSubmit: () => void;
  children: ReactNode;
}

/** A dialog with a form. Enter submits it, and an error appears below the fields. Render it only while it is open. */
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
