import { cx } from "./class-names.ts";

/**
 * Text that somebody else wrote: names, tags, messages. Its direction stays inside, and it breaks where it must; `line`: it is
 * cut at the end of the line, with the whole in its title.
 */
export function Text({ children, line = false, className }: { children: string | null | undefined; line?: boolean; className?: string }) {
  if (children === null || children === undefined || children === "") return <span className="text-muted">—</span>;
  return (
    <bdi
      className={cx(line ? "block min-w-0 truncate" : "[overflow-wrap:anywhere]", className)}
      title={line ? children.slice(0, 500) : undefined}
    >
      {children}
    </bdi>
  );
}
