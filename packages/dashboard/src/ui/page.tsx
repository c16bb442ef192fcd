import type { ReactNode } from "react";

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
    <header className="mb-4 flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
      <title>{`${label.slice(0, 80)} · Roamfleet`}</title>
      <div className="min-w-0">
        <h1 className="text-xl font-semibold tracking-tight [overflow-wrap:anywhere]">{title}</h1>
        {meta !== undefined && <div className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-muted">{meta}</div>}
      </div>
      {actions !== undefined && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
    </header>
  );
}

/** A section of a page with a heading. */
export function Section({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="mb-6 min-w-0" aria-label={title}>
      <div className="mb-2 flex min-h-8 items-center justify-between gap-2">
        <h2 className="font-semibold">{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  );
}

/** A framed area. */
export function Card({ children, className = "" }: { children: ReactNode; className?: string }) {
  return <div className={`min-w-0 rounded-lg border border-line bg-raised p-4 ${className}`}>{children}</div>;
}

/** Names and values in two columns. */
export function KeyValue({ items }: { items: readonly (readonly [string, ReactNode] | false)[] }) {
  return (
    <dl className="grid grid-cols-[minmax(6rem,auto)_minmax(0,1fr)] items-baseline gap-x-4 gap-y-1.5">
      {items.map(
        (item) =>
          item !== false && (
            <div key={item[0]} className="contents">
              <dt className="text-muted">{item[0]}</dt>
              <dd className="min-w-0 [overflow-wrap:anywhere]">{item[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
