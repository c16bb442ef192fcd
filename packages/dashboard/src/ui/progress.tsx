import { cx } from "./class-names.ts";
import type { Tone } from "./status.tsx";

const FILLS: Record<Tone, string> = { ok: "bg-ok", warn: "bg-warn", bad: "bg-bad", info: "bg-info", idle: "bg-line-strong" };

export interface Part {
  value: number;
  tone: Tone;
  label: string;
}

/** A stacked progress bar. `label` is its accessible name. */
export function Progress({ parts, total, label }: { parts: readonly Part[]; total: number; label: string }) {
  const of = Math.max(1, total);
  const done = parts.reduce((sum, { value }) => sum + value, 0);
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={of}
      aria-valuenow={Math.min(of, done)}
      aria-valuetext={
        parts
          .filter(({ value }) => value > 0)
          .map((part) => `${part.value} ${part.label}`)
          .join(", ") || `0 of ${total}`
      }
      className="flex h-2 w-full gap-px overflow-hidden rounded-full bg-active"
    >
      {/* Flex factors share the width without the gaps, so that complete parts fill the bar. */}
      {parts.map(
        ({ value, tone, label: name }) =>
          value > 0 && (
            <div key={name} className={cx("h-full", FILLS[tone])} style={{ flex: `${value} 0 0px` }} title={`${value} ${name}`} />
          ),
      )}
      {of > done && <div style={{ flex: `${of - done} 0 0px` }} />}
    </div>
  );
}

/** A usage meter: yellow above 80%, red above 95%. */
export function Meter({ value, max = 100, label }: { value: number; max?: number; label: string }) {
  const share = Math.min(1, Math.max(0, value / Math.max(1e-9, max)));
  const tone: Tone = share > 0.95 ? "bad" : share > 0.8 ? "warn" : "ok";
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={value}
      className="h-1.5 w-full overflow-hidden rounded-full bg-active"
    >
      <div className={cx("h-full", FILLS[tone])} style={{ width: `${100 * share}%` }} />
    </div>
  );
}
