import { Link, type LinkProps, useLocation } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef } from "react";
import { LinkButton } from "./button.tsx";
import type { Option } from "./field.tsx";
import { type Loaded, PartContext, QueryState } from "./query-state.tsx";
import { cx } from "./text.tsx";

/** The header of a page: title, metadata and actions. Also sets the browser's title. */
export function PageHeader({
  title,
  label,
  meta,
  actions,
}: {
  title: ReactNode;
  /** The title as plain text, for the browser's tab. */ label: string;
  meta?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <header className="mb-4 flex min-h-8 shrink-0 flex-wrap items-start justify-between gap-x-4 gap-y-2">
      <title>{`${label.slice(0, 80)} · Roamfleet`}</title>
      <div className="min-w-0">
        <h1 className="text-xl font-semibold tracking-tight [overflow-wrap:anywhere]">{title}</h1>
        {meta !== undefined && <div className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-muted">{meta}</div>}
      </div>
      {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** A page about one object. Until the object is loaded, shows only the title, and the error if loading fails. */
export function LoadedPage<T>({ title, query, children }: { title: string; query: Loaded<{ data: T }>; children: (data: T) => ReactNode }) {
  return (
    <>
      {query.data === undefined && <PageHeader title={title} label={title} />}
      <QueryState query={query}>{({ data }) => children(data)}</QueryState>
    </>
  );
}

interface SectionProps {
  title: string;
  actions?: ReactNode;
  /** Link to the page with the complete list; false: none. */
  all?: LinkProps | false;
  children: ReactNode;
}

/** Shown in place of a section that is omitted without data, if its query failed: an omitted section would look like "none". */
export const FailedSection = ({ title, query }: { title: string; query: Loaded<unknown> }) => (
  <Section title={title}>
    <QueryState query={query}>{() => null}</QueryState>
  </Section>
);

/** A section of a page with a heading. */
export function Section({ title, actions, all = false, children }: SectionProps) {
  return (
    <section className="mb-6 min-w-0" aria-label={title}>
      <div className="mb-2 flex min-h-8 items-center justify-between gap-2">
        <h2 className="font-semibold">{title}</h2>
        {actions}
        {all !== false && (
          <LinkButton look="quiet" {...all}>
            View all
          </LinkButton>
        )}
      </div>
      <PartContext value={true}>{children}</PartContext>
    </section>
  );
}

/** A framed area. */
export function Card({ children, className = "" }: { children: ReactNode; className?: string }) {
  return <div className={`min-w-0 rounded-lg border border-line bg-raised p-4 ${className}`}>{children}</div>;
}

/** A framed list. `children` returns the `li` of an item; `empty` is shown instead of an empty list. */
export function CardList<Item>({ items, empty, label, ordered = false, children }: CardListProps<Item>) {
  const List = ordered ? "ol" : "ul";
  if (items.length === 0 && empty !== undefined) return <p className="text-muted">{empty}</p>;
  return (
    <Card className="!p-0">
      <List
        className={cx("divide-y divide-line", label !== undefined && "max-h-80 overflow-y-auto")}
        aria-label={label}
        tabIndex={label === undefined ? undefined : 0}
      >
        {items.map(children)}
      </List>
    </Card>
  );
}

interface CardListProps<Item> {
  items: readonly Item[];
  empty?: string;
  /** Accessible name of the list. Set it if the list scrolls. */
  label?: string;
  ordered?: boolean;
  children: (item: Item) => ReactNode;
}

/** A list of names and values in two columns. Leaves out values that are false. */
export function KeyValue({ items }: { items: Readonly<Record<string, ReactNode>> }) {
  return (
    <dl className="grid grid-cols-[minmax(6rem,auto)_minmax(0,1fr)] items-baseline gap-x-4 gap-y-1.5">
      {Object.entries(items).map(
        ([name, value]) =>
          value !== false && (
            <div key={name} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="min-w-0 [overflow-wrap:anywhere]">{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

interface Tab {
  label: string;
  link: LinkProps;
  count?: number | undefined;
}

/** Width of the fade at the sides to which a bar of tabs can be scrolled: see fade-sides in theme.css. */
const FADE_PX = 40;

/** Tabs of a page, each with a URL. */
export function LinkTabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // The bar of tabs scrolls on narrow screens. Scroll it so that the open tab is visible.
  useEffect(() => {
    // Scrolls only the bar: scrollIntoView would also scroll the page.
    const show = (): void => {
      const bar = nav.current;
      const tab = bar?.querySelector("[aria-current=page]");
      if (bar == null || tab == null) return;
      const [of_bar, of_tab] = [bar.getBoundingClientRect(), tab.getBoundingClientRect()];
      if (of_tab.right > of_bar.right - FADE_PX) bar.scrollLeft += of_tab.right - of_bar.right + FADE_PX;
      else if (of_tab.left < of_bar.left + FADE_PX) bar.scrollLeft += of_tab.left - of_bar.left - FADE_PX;
    };
    show();
    // Also after a phone was rotated.
    addEventListener("resize", show);
    return () => removeEventListener("resize", show);
  }, [pathname]);
  return (
    <nav ref={nav} aria-label={label} className="fade-sides mb-4 flex scroll-px-10 gap-1 overflow-x-auto border-b border-line">
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

/** A segmented control: a few options side by side, one of which is selected. */
export function Segments<Value extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  /** `title`: a longer text for the tooltip. */
  options: readonly (Option & { value: Value; title?: string })[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex rounded-md border border-line-strong p-px">
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          title={option.title}
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className={cx("h-7 rounded px-3", option.value === value ? "bg-accent-soft font-medium" : "text-muted hover:bg-hover")}
        >
          {option.label}
        </button>
      ))}
    </div>
  );
}
