import type { LogHistogram as Counts } from "@roamfleet/protocol/routes";
import { type PointerEvent, useState } from "react";
import { Button, counted, cx, ErrorText, Time } from "../../ui/index.ts";
import { barsOf, type Bar, ticksOf } from "./log-bars.ts";

/** A period, as URL parameters. */
export interface Span {
  since: string;
  until: string;
}

interface LogHistogramProps {
  /** The counted parts of the period; undefined while the first one is loading. */
  pages: readonly Counts[] | undefined;
  error: Error | null;
  is_loading: boolean;
  /** Counts the next part. Undefined if the whole period was counted. */
  onMore: (() => void) | undefined;
  onSpan: (span: Span) => void;
}

const PARTS = [
  { part: "error", className: "bg-bad" },
  { part: "warn", className: "bg-warn" },
  { part: "other", className: "bg-info" },
] as const;

/** Maximum intervals between the labels of the time axis. A narrow screen shows every other label. */
const INTERVALS_MAX = 8;
/** The axis has no labels so near its ends, where they would be cut off. */
const EDGE_PERCENT = 5;
const COUNT = new Intl.NumberFormat(undefined, { notation: "compact" });

/** Matching records by time. A click on a bar, or a drag across several, selects their time. The time filters do the same by keyboard. */
export function LogHistogram({ pages, error, is_loading, onMore, onSpan }: LogHistogramProps) {
  const [dragged, setDragged] = useState<{ from: number; to: number }>();
  if (pages === undefined) return error === null ? <div className="mb-3 h-24" /> : <ErrorText error={error} className="mb-3" />;
  const bars = barsOf(pages);
  const most = Math.max(1, ...bars.map(({ total }) => total));
  const sums = PARTS.map(({ part }) => bars.reduce((sum, bar) => sum + bar[part], 0));
  const [errors = 0, warnings = 0] = sums;
  const total = sums.reduce((a, b) => a + b, 0);
  const back_to = pages.at(-1)?.searched_back_to ?? null;
  const barAt = ({ clientX, currentTarget }: PointerEvent<HTMLElement>): number => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return Math.min(bars.length - 1, Math.max(0, Math.floor(((clientX - left) / width) * bars.length)));
  };
  const select = (): void => {
    if (dragged === undefined) return;
    setDragged(undefined);
    const [first, last] = [bars[Math.min(dragged.from, dragged.to)], bars[Math.max(dragged.from, dragged.to)]];
    if (first !== undefined && last !== undefined) onSpan({ since: first.since, until: last.until });
  };
  const summary = `${counted(total, "record")}: ${counted(errors, "error")}, ${counted(warnings, "warning")}`;
  return (
    <div className="mb-3 grid grid-cols-[auto_minmax(0,1fr)] gap-x-1.5">
      <div aria-hidden className="flex flex-col justify-between text-right text-xs leading-3 text-muted tabular-nums">
        <span>{total > 0 && COUNT.format(most)}</span>
        <span>0</span>
      </div>
      <div
        role="img"
        aria-label={`Records by time, at most ${counted(most, "record")} in a bar. ${summary}`}
        className="flex h-16 cursor-crosshair touch-none items-end rounded-md border border-line bg-surface px-px"
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDragged({ from: barAt(event), to: barAt(event) });
        }}
        onPointerMove={(event) => dragged !== undefined && setDragged({ ...dragged, to: barAt(event) })}
        onPointerUp={select}
        onPointerCancel={() => setDragged(undefined)}
      >
        {bars.map((bar, index) => (
          <HistogramBar key={bar.since} bar={bar} most={most} is_selected={dragged !== undefined && isBetween(index, dragged)} />
        ))}
      </div>
      <TimeAxis bars={bars} />
      <div className="col-start-2 flex min-h-6 flex-wrap items-center gap-x-3 text-xs text-muted">
        {pages[0] !== undefined && (
          <span>
            <Time at={pages[0].since} exact /> – <Time at={pages[0].until} exact />
          </span>
        )}
        <span>{summary}</span>
        {back_to !== null && (
          <span role="status">
            Counted back to <Time at={back_to} exact />
          </span>
        )}
        {onMore !== undefined && (
          <Button look="quiet" busy={is_loading} onClick={onMore} className="!h-[24px] text-xs">
            {error === null ? "Continue counting" : "Could not count. Try again"}
          </Button>
        )}
        {total > 0 && <span className="ml-auto max-sm:hidden">Drag across the bars to select a time</span>}
      </div>
    </div>
  );
}

function TimeAxis({ bars }: { bars: readonly Bar[] }) {
  const [since, until] = [Date.parse(bars[0]?.since ?? ""), Date.parse(bars.at(-1)?.until ?? "")];
  const ticks = ticksOf(since, until, INTERVALS_MAX).map(({ at_ms, text }) => ({
    text,
    percent: ((at_ms - since) / (until - since)) * 100,
  }));
  return (
    <div aria-hidden className="relative col-start-2 mt-0.5 h-4 text-xs text-muted tabular-nums">
      {ticks
        .filter(({ percent }) => percent > EDGE_PERCENT && percent < 100 - EDGE_PERCENT)
        .map(({ text, percent }) => (
          <span key={percent} className="absolute -translate-x-1/2 whitespace-nowrap max-sm:even:hidden" style={{ left: `${percent}%` }}>
            {text}
          </span>
        ))}
    </div>
  );
}

const isBetween = (index: number, { from, to }: { from: number; to: number }): boolean =>
  index >= Math.min(from, to) && index <= Math.max(from, to);

function HistogramBar({ bar, most, is_selected }: { bar: Bar; most: number; is_selected: boolean }) {
  return (
    <div
      className={cx("flex h-full min-w-0 flex-1 flex-col-reverse px-px hover:bg-hover", is_selected && "bg-active")}
      title={`${new Date(bar.since).toLocaleString()}: ${counted(bar.total, "record")}, ${counted(bar.error, "error")}`}
      data-log-bar={bar.total}
    >
      {PARTS.toReversed().map(({ part, className }) =>
        bar[part] === 0 ? null : <div key={part} className={className} style={{ height: `${(bar[part] / most) * 100}%`, minHeight: 1 }} />,
      )}
    </div>
  );
}
