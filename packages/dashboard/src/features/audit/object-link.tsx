import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** Pages of objects by ID prefix. */
const PAGES = {
  rob: "/robots/$id",
  fleet: "/fleets/$id",
  site: "/sites/$id",
  rel: "/releases/$id",
  dep: "/deployments/$id",
  shl: "/shells/$id",
} as const;

/** Returns the page of an object; undefined if it has none. */
const pageOf = (id: string | null): (typeof PAGES)[keyof typeof PAGES] | undefined => {
  const prefix = id?.split("_", 1)[0] ?? "";
  return Object.hasOwn(PAGES, prefix) ? PAGES[prefix as keyof typeof PAGES] : undefined;
};

/** A link to the page of an object. Without a page, renders the children alone, or nothing with `is_only`. */
export function ObjectLink({ id, is_only = false, children }: { id: string | null; is_only?: boolean; children: ReactNode }) {
  const to = pageOf(id);
  if (id === null || to === undefined) return is_only ? null : children;
  return (
    <Link to={to} params={{ id }} className="block min-w-0 text-accent hover:underline">
      {children}
    </Link>
  );
}
