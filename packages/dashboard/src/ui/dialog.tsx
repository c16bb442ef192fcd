import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { Button } from "./button.tsx";
import { Command } from "./copy.tsx";
import { OUTAGE_REASON, useOutage } from "./outage.ts";
import { ErrorText } from "./query-state.tsx";
import { cx } from "./text.tsx";

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  children?: ReactNode;
  /** Buttons in the footer; the primary one is last. */
  actions?: ReactNode;
  wide?: boolean;
}

/** A modal dialog. Escape or a click outside closes it. The focus stays inside and returns to where it was. */
export function Dialog({ open, onClose, title, description, children, actions, wide = false }: DialogProps) {
  const is_cut_off = useOutage() !== undefined;
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-overlay" />
        <Base.Popup
          className={cx(
            "fixed top-[calc((100dvh-var(--toasts,0px))/2)] left-1/2 z-40 flex max-h-[calc(100dvh-2rem-var(--toasts,0px))] w-[calc(100vw-2rem)] -translate-1/2 flex-col rounded-lg border border-line bg-raised shadow-raised",
            wide ? "max-w-3xl" : "max-w-lg",
          )}
        >
          <header className="flex items-start justify-between gap-4 px-5 pt-4">
            <Base.Title className="text-base font-semibold">{title}</Base.Title>
            <Base.Close aria-label="Close" className="-mr-1 rounded-md p-1 text-muted hover:bg-hover hover:text-ink">
              <X size={16} aria-hidden />
            </Base.Close>
          </header>
          <div className={cx("min-h-0 flex-1 overflow-y-auto px-5 py-3", is_cut_off && "grayscale")}>
            {description !== undefined && <Base.Description className="mb-3 text-muted">{description}</Base.Description>}
            {children}
          </div>
          {actions !== undefined && (
            <footer className="flex flex-wrap items-center justify-end gap-2 border-t border-line px-5 py-3">
              {is_cut_off && <p className="mr-auto text-bad">{OUTAGE_REASON}.</p>}
              {actions}
            </footer>
          )}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

export interface ConfirmDialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  /** The effect of the action, in whole sentences. */
  consequence: ReactNode;
  /** The text of the confirm button. */
  verb: string;
  danger?: boolean;
  /** The text of the button that closes the dialog without the action. Default: "Cancel". */
  dismiss?: string;
  /** The equivalent `rf` command. */
  command?: string;
  /** A text to type before the confirm button is enabled, for actions that cannot be undone. */
  type_to_confirm?: string;
  busy?: boolean;
  onConfirm: () => void;
  children?: ReactNode;
}

/** Asks for confirmation of an action and shows its effect. */
export function ConfirmDialog({ open, onClose, title, consequence, verb, danger = false, onConfirm, ...rest }: ConfirmDialogProps) {
  const [typed, setTyped] = useState("");
  const is_locked = rest.type_to_confirm !== undefined && typed !== rest.type_to_confirm;
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      description={consequence}
      actions={
        <>
          <Button onClick={onClose}>{rest.dismiss ?? "Cancel"}</Button>
          <Button
            look={danger ? "danger" : "primary"}
            onClick={onConfirm}
            {...(rest.busy === undefined ? {} : { busy: rest.busy })}
            disabled={is_locked}
          >
            {verb}
          </Button>
        </>
      }
    >
      {rest.children}
      {rest.type_to_confirm !== undefined && (
        <label className="mt-3 block">
          <span className="mb-1 block text-muted">
            Type <bdi className="font-mono text-ink [overflow-wrap:anywhere]">{rest.type_to_confirm}</bdi> to confirm{" "}
          </span>
          <input
            className="h-8 w-full rounded-md border border-line-strong bg-surface px-2"
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
          />
        </label>
      )}
      {rest.command !== undefined && (
        <div className="mt-3">
          <Command>{rest.command}</Command>
        </div>
      )}
    </Dialog>
  );
}

/** The part of a mutation's state that the form shows. */
interface Sending {
  isPending: boolean;
  error: Error | null;
}

interface FormDialogProps {
  onClose: () => void;
  title: string;
  description?: ReactNode;
  /** The text of the submit button. */
  verb: string;
  /** State of the request that the form sends. Undefined if the form sends none; then it also works during an outage. */
  sending?: Sending;
  /** An error to show below the fields, because no field shows it. Default: the error of `sending`. */
  error?: Error | null;
  /** Whether the submit button is disabled, because the input is incomplete or invalid. */
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
  error = sending?.error ?? null,
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
          <Button look="primary" type="submit" form={id} {...(sending === undefined ? {} : { busy: sending.isPending })} disabled={locked}>
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
      <ErrorText error={error} className="mb-3" />
      {rest.command !== undefined && <Command>{rest.command}</Command>}
    </Dialog>
  );
}
