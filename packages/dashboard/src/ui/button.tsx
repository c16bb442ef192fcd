import { Tooltip as Base } from "@base-ui/react/tooltip";
import { Link, type LinkProps } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ButtonHTMLAttributes, ComponentType, ReactElement, ReactNode } from "react";
import { OUTAGE_REASON, useOutage } from "./outage.ts";
import { cx } from "./text.tsx";

type Look = "primary" | "secondary" | "quiet" | "danger";
const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-accent-ink hover:bg-accent-hover",
  secondary: "border border-line bg-raised text-ink hover:bg-hover",
  quiet: "text-ink hover:bg-hover",
  danger: "bg-bad text-surface hover:bg-bad-hover",
};
const SHAPE =
  "inline-flex h-8 shrink-0 items-center justify-center gap-1.5 rounded-md px-3 font-medium whitespace-nowrap select-none aria-disabled:opacity-60 disabled:cursor-not-allowed disabled:opacity-60";

/** An icon of lucide-react, or a component that takes its place. */
export type Icon = ComponentType<{ size?: number; "aria-hidden"?: boolean }>;

interface Shown {
  look?: Look;
  /** Shown beside the text. */
  icon?: Icon | undefined;
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement>, Shown {
  /** Whether the button's request is running. Set it (even to false) if the button sends a request: an outage then disables the button. */
  busy?: boolean;
}

const IconOf = ({ icon: Shape, size = 14 }: { icon: Icon | undefined; size?: number }) =>
  Shape !== undefined && <Shape size={size} aria-hidden />;

export function Button({ look = "secondary", icon, busy, children, className, type = "button", disabled, title, ...rest }: ButtonProps) {
  const is_cut_off = useOutage() !== undefined && busy !== undefined;
  // An outage may last, and the page repeats failed requests: a spinner would suggest that the result is about to appear.
  const is_busy = busy === true && !is_cut_off;
  return (
    <button
      type={type}
      className={cx(SHAPE, LOOKS[look], className)}
      disabled={disabled === true || is_busy || is_cut_off}
      aria-busy={is_busy}
      title={is_cut_off ? OUTAGE_REASON : title}
      {...rest}
    >
      <IconOf icon={icon} />
      {children}
      {is_busy && <span className="size-3 animate-spin rounded-full border-2 border-current border-t-transparent" />}
    </button>
  );
}

/** An icon-only button. Its label is its accessible name and its tooltip. */
export function IconButton({
  label,
  icon,
  size = 14,
  look = "quiet",
  className,
  type = "button",
  ...rest
}: ButtonProps & { label: string; size?: number }) {
  return (
    <Tooltip text={label}>
      <button type={type} aria-label={label} className={cx(SHAPE, "w-8 !px-0", LOOKS[look], className)} {...rest}>
        <IconOf icon={icon} size={size} />
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
}: LinkProps & Shown & { children: ReactNode; className?: string; "aria-current"?: "true" | undefined }) {
  return (
    <Link className={cx(SHAPE, LOOKS[look], className)} {...rest}>
      <IconOf icon={icon} />
      {children}
    </Link>
  );
}

/** A link styled as a button, for targets outside the dashboard: a file, the API reference. */
export function AnchorButton({ icon, children, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & Pick<Shown, "icon">) {
  const is_outage = useOutage() !== undefined;
  if (is_outage && rest.download !== undefined)
    return (
      <Button icon={icon} disabled title={OUTAGE_REASON}>
        {children}
      </Button>
    );
  return (
    <a className={cx(SHAPE, LOOKS.secondary)} {...rest}>
      <IconOf icon={icon} />
      {children}
    </a>
  );
}

/** A tooltip on hover and focus. Never the only place of essential information. */
export function Tooltip({ text, children }: { text: ReactNode; children: ReactElement }) {
  return (
    <Base.Root>
      <Base.Trigger render={children} />
      <Base.Portal>
        <Base.Positioner sideOffset={6} className="z-50">
          <Base.Popup className="max-w-80 rounded-md border border-line bg-raised px-2 py-1 text-xs text-ink shadow-raised [overflow-wrap:anywhere]">
            {text}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
