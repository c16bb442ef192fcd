import { Link, type LinkProps, useLocation } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

export interface Tab {
  label: string;
  link: LinkProps;
  count?: number | undefined;
}

/** Tabs of a page, each with a URL. */
export function LinkTabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // On narrow screens, scroll the open tab into view. A fade shows that there are more tabs.
  useEffect(() => {
    // In braces: newer browsers return a promise, which React would take for a cleanup function.
    nav.current?.querySelector("[aria-current=page]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [pathname]);
  return (
    <nav
      ref={nav}
      aria-label={label}
      className="mb-4 flex scroll-px-10 gap-1 overflow-x-auto border-b border-line max-sm:[mask-image:linear-gradient(to_right,black_calc(100%-2.5rem),transparent)] max-sm:pr-10"
    >
      {tabs.map(({ label: text, link, count }) => (
        <Link
          key={text}
          {...link}
          className="flex h-9 items-center gap-1.5 border-b-2 border-transparent px-2.5 whitespace-nowrap text-muted hover:text-ink"
          activeProps={{ className: "!border-accent !text-ink font-medium", "aria-current": "page" }}
          activeOptions={{ exact: true, includeSearch: false }}
        >
          {text}
          {count !== undefined && <span className="rounded bg-active px-1 text-xs tabular-nums">{count}</span>}
        </Link>
      ))}
    </nav>
  );
}
