import { Link, type LinkProps } from "@tanstack/react-router";
import { cx } from "../../ui/index.ts";

export type Destination = Pick<LinkProps, "to"> & { search?: object };

interface FigureProps {
  label: string;
  value: number | string;
  link: Destination;
  tone?: string;
}

/** A large number with its label, which links to the list of what it counts. */
export function Figure({ label, value, link, tone = "" }: FigureProps) {
  return (
    <Link
      {...(link as LinkProps)}
      className="rounded-lg border border-line bg-raised px-4 py-3 hover:bg-hover max-sm:odd:last:col-span-2 xl:flex-auto xl:px-3"
    >
      <span className={cx("block text-2xl font-semibold tabular-nums", tone)}>{value.toLocaleString()}</span>
      <span className="block text-xs text-muted">{label}</span>
    </Link>
  );
}
