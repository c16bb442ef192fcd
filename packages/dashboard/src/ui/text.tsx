import { cx } from "./class-names.ts";

/**
 * Untrusted text, such as names, tags and messages. Isolates its text direction and breaks long words. With `line`, truncates the text to
 * one line and shows all of it as tooltip.
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
