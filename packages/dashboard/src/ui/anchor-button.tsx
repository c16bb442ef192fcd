import type { AnchorHTMLAttributes, ReactNode } from "react";
import { cx } from "./class-names.ts";

/** A link styled as a button, for targets outside the dashboard: a file, the API reference. */
export function AnchorButton({
  href,
  icon,
  children,
  className,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string; icon?: ReactNode }) {
  return (
    <a
      href={href}
      className={cx(
        "inline-flex h-8 shrink-0 items-center justify-center gap-1.5 rounded-md border border-line bg-raised px-3 font-medium whitespace-nowrap text-ink select-none hover:bg-hover",
        className,
      )}
      {...rest}
    >
      {icon}
      {children}
    </a>
  );
}
