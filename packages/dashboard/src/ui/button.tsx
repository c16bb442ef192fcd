import { Link, type LinkProps } from "@tanstack/react-router";
import type { ButtonHTMLAttributes, ReactNode } from "react";
import { cx } from "./class-names.ts";
import { OUTAGE_REASON, useOutage } from "./outage.ts";
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
  /** Shown beside the text. */
  icon?: ReactNode;
  /** Whether the request is running. Set it, even to false, on every button that sends a request: it is then disabled during an outage. */
  busy?: boolean;
}

export function Button({ look = "secondary", icon, busy, children, className, type = "button", disabled, title, ...rest }: ButtonProps) {
  const is_cut_off = useOutage() !== undefined && busy !== undefined;
  return (
    <button
      type={type}
      className={cx(SHAPE, LOOKS[look], className)}
      disabled={disabled === true || busy === true || is_cut_off}
      aria-busy={busy === true}
      title={is_cut_off ? OUTAGE_REASON : title}
      {...rest}
    >
      {icon}
      {children}
      {busy === true && <span className="size-3 animate-spin rounded-full border-2 border-current border-t-transparent" />}
    </button>
  );
}

/** An icon-only button. Its label is its accessible name and its tooltip. */
export function IconButton({ label, icon, look = "quiet", className, type = "button", ...rest }: ButtonProps & { label: string }) {
  return (
    <Tooltip text={label}>
      <button type={type} aria-label={label} className={cx(SHAPE, "w-8 !px-0", LOOKS[look], className)} {...rest}>
        {icon}
      </button>
    </Tooltip>
  );
}

/** A link to a page, styled as a button. */
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
