import { Link, type LinkProps } from "@tanstack/react-router";
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { cx } from "./class-names.ts";
import { Tooltip } from "./tooltip.tsx";

type Look = "primary" | "secondary" | "quiet" | "danger";
const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-accent-ink hover:bg-accent-hover",
  secondary: "border border-line bg-raised text-ink hover:bg-hover",
  quiet: "text-ink hover:bg-hover",
  danger: "bg-bad text-surface hover:bg-bad-hover",
};
const SHAPE =
  "inline-flex h-8 shrink-0 items-center justify-center gap-1.5 rounded-md px-3 font-medium whitespace-nowrap select-none aria-disabled:opacity-60 disabled:cursor-not-allowed disabled:opacity-60";

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  /** Beside the text; the text says what it does. */
  icon?: ReactNode;
  /** It is being done: the button waits and says so. */
  busy?: boolean;
}

export function Button({ look = "secondary", icon, busy = false, children, className, type = "button", disabled, ...rest }: ButtonProps) {
  return (
    <button type={type} className={cx(SHAPE, LOOKS[look], className)} disabled={disabled === true || busy} aria-busy={busy} {...rest}>
      {icon}
      {children}
      {busy && <span className="size-3 animate-spin rounded-full border-2 border-current border-t-transparent" />}
    </button>
  );
}

/** A button that is only an icon: its label is read out and shown as a tooltip. */
export function IconButton({ label, icon, look = "quiet", className, type = "button", ...rest }: ButtonProps & { label: string }) {
  return (
    <Tooltip text={label}>
      <button type={type} aria-label={label} className={cx(SHAPE, "w-8 !px-0", LOOKS[look], className)} {...rest}>
        {icon}
      </button>
    </Tooltip>
  );
}

/** A link that looks like a button: for what has an address. */
export function LinkButton({
  look = "secondary",
  icon,
  children,
  className,
  ...rest
}: LinkProps & { look?: Look; icon?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <Link className={cx(SHAPE, LOOKS[look], className)} {...rest}>
      {icon}
      {children}
    </Link>
  );
}
