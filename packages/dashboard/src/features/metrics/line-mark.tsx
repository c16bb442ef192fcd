import { styleOf } from "./explorer.ts";

/** A sample of the line, for legends and tooltips. */
export function LineMark({ index }: { index: number }) {
  const { token, dash } = styleOf(index);
  return (
    <svg width="22" height="6" aria-hidden className="shrink-0">
      <line x1="0" y1="3" x2="22" y2="3" strokeWidth="2.5" strokeDasharray={dash.join(" ")} stroke={`var(${token})`} />
    </svg>
  );
}
