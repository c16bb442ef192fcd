import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type uPlot from "uplot";
import { axisLook, themeColor, useChart } from "../../ui/chart.ts";
import { cx, TextLine } from "../../ui/index.ts";
import { lonely, valueText } from "../robots/health-series.ts";
import { type Line, styleOf } from "./explorer.ts";
import { LineMark } from "./line-mark.tsx";
import type { Marker } from "./use-markers.ts";

const HEIGHT_PX = 240;
const DAY_SECONDS = 86_400;
/** Charts with the same key synchronize their cursors. */
const SYNC_KEY = "metrics-explorer";
/** A line is highlighted if the pointer is at most this far from it. */
const NEAR_PX = 24;
/** Lines that the tooltip lists. */
const TOOLTIP_LINES_MAX = 8;
const TOOLTIP_PX = 260;
/** A drag over fewer pixels counts as a click. */
const DRAG_PX_MIN = 6;
const MARKER_PX = 5;

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const CLOCK_SECONDS = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export interface LineChartProps {
  title: string;
  unit: string;
  /** Upper end of the value axis, which starts at 0; undefined: the axis fits the values. */
  max: number | undefined;
  times: readonly number[];
  lines: readonly Line[];
  from: number;
  until: number;
  markers: readonly Marker[];
  /** Key of the highlighted line. */
  lit: string | undefined;
  onLit: (key: string | undefined) => void;
  /** Called with the selected period, in seconds since 1970. */
  onZoom: (from: number, until: number) => void;
  /** Called with the position of the chosen time and the chosen line. */
  onPick: (at: number, key: string | undefined) => void;
}

/**
 * A chart with one line for each group and gaps where there is no data. All charts of the page share the cursor. A drag selects a period.
 * With the keyboard, the left and right arrows move the cursor, up and down change the line, + and - zoom, and Enter selects the point.
 */
export function LineChart(props: LineChartProps) {
  const { title, unit, times, lines, lit, markers } = props;
  const frame = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [cursor, setCursor] = useState<Cursor>();
  const shape = JSON.stringify([title, unit, props.max, lines.map(({ key }) => key), props.until - props.from > DAY_SECONDS]);
  const chart = useChart(frame, shape, {
    options: (width) => optionsOf(latest, width, setCursor),
    data: () => dataOf(latest.current),
  });
  useEffect(() => chart.current?.setData(dataOf({ times, lines })), [chart, times, lines, props.from, props.until]);
  useEffect(() => chart.current?.redraw(false), [chart, markers]);
  useEffect(() => {
    const at = lines.findIndex(({ key }) => key === lit);
    chart.current?.setSeries(at === -1 ? null : at + 1, { focus: true }, false);
  }, [chart, lines, lit]);
  const press = useKeys(latest, chart, cursor?.at);
  const at = cursor === undefined ? times.length - 1 : Math.min(cursor.at, times.length - 1);
  return (
    <div className="relative">
      <div
        ref={frame}
        role="slider"
        tabIndex={0}
        aria-label={`${title}: time`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, times.length - 1)}
        aria-valuenow={Math.max(0, at)}
        aria-valuetext={pointText(props, at)}
        onKeyDown={press}
        className="cursor-crosshair overflow-hidden rounded"
      />
      {cursor?.shows === true && <Tooltip {...props} {...cursor} at={at} />}
    </div>
  );
}

interface Cursor {
  /** Position in `times`. */
  at: number;
  left: number;
  width: number;
  /** Whether this chart has the pointer or the focus. The others show only the line of the cursor. */
  shows: boolean;
}

const dataOf = ({ times, lines }: Pick<LineChartProps, "times" | "lines">): uPlot.AlignedData =>
  [times, ...lines.map(({ values }) => values)] as unknown as uPlot.AlignedData;

const momentText = (seconds: number | undefined): string => (seconds === undefined ? "no data" : MOMENT.format(seconds * 1_000));

/** Describes a point in words, for screen readers: the highlighted line, or the first ones. */
function pointText({ times, lines, unit, lit }: LineChartProps, at: number): string {
  const shown = lit === undefined ? lines.slice(0, TOOLTIP_LINES_MAX) : lines.filter(({ key }) => key === lit);
  return `${momentText(times[at])}: ${shown.map(({ label, values }) => `${label} ${valueText(values[at], unit)}`).join(", ")}`;
}

/** The time and the highest values at the cursor. */
function Tooltip({ times, lines, unit, lit, at, left, width }: LineChartProps & Cursor) {
  const found = useMemo(
    () =>
      lines
        .filter(({ values }) => (values[at] ?? null) !== null)
        .toSorted((a, b) => Number(b.key === lit) - Number(a.key === lit) || b.values[at]! - a.values[at]!),
    [lines, at, lit],
  );
  return (
    <div
      aria-hidden
      className="pointer-events-none absolute top-2 z-20 rounded-md border border-line bg-raised px-2 py-1.5 text-xs shadow-raised"
      style={{ width: TOOLTIP_PX, maxWidth: "55%", ...placeOf(left, width) }}
    >
      <p className="mb-1 text-muted tabular-nums">{momentText(times[at])}</p>
      {found.slice(0, TOOLTIP_LINES_MAX).map(({ key, label, index, values }) => (
        <p key={key} className={cx("flex items-center gap-1.5", key === lit && "font-semibold")}>
          <LineMark index={index} />
          <TextLine className="flex-1">{label}</TextLine>
          <span className="shrink-0 tabular-nums">{valueText(values[at], unit)}</span>
        </p>
      ))}
      {found.length > TOOLTIP_LINES_MAX && <p className="text-muted">{`${found.length - TOOLTIP_LINES_MAX} more`}</p>}
      {found.length === 0 && <p className="text-muted">No samples</p>}
    </div>
  );
}

/** Width of the value axis. */
const AXIS_PX = 56;
const TOOLTIP_GAP_PX = 12;

/** Places the tooltip beside the cursor, on the side with more space. `left` is the position in the drawing area of this width. */
const placeOf = (left: number, width: number) =>
  left < width / 2 ? { left: AXIS_PX + left + TOOLTIP_GAP_PX } : { right: `calc(100% - ${AXIS_PX + left - TOOLTIP_GAP_PX}px)` };

type Latest = { current: LineChartProps };

/** Returns the key handler of the chart. */
function useKeys(latest: Latest, chart: { current: uPlot | undefined }, at: number | undefined) {
  return (event: KeyboardEvent): void => {
    const { times, lines, lit, onLit, onZoom, onPick, from, until } = latest.current;
    const now = at ?? times.length - 1;
    const far = event.shiftKey ? 10 : 1;
    const last = times.length - 1;
    const target = { ArrowLeft: now - far, ArrowRight: now + far, Home: 0, End: last }[event.key];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const zoom = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    const middle = times[now];
    if (target !== undefined) moveCursor(chart.current, latest.current, Math.max(0, Math.min(last, target)));
    else if (step !== undefined && lines.length > 0) {
      const line = lines.findIndex(({ key }) => key === lit);
      onLit(lines[(Math.max(line, step > 0 ? -1 : 0) + step + lines.length) % lines.length]!.key);
    } else if (zoom !== undefined && middle !== undefined) {
      const half = ((until - from) * zoom) / 2;
      onZoom(middle - half, middle + half);
    } else if (event.key === "Enter") onPick(now, lit);
    else if (event.key === "Escape") onLit(undefined);
    else return;
    event.preventDefault();
  };
}

function moveCursor(chart: uPlot | undefined, { times, lines, lit }: LineChartProps, at: number): void {
  if (chart === undefined || times[at] === undefined) return;
  const value = lines.find(({ key }) => key === lit)?.values[at] ?? null;
  chart.setCursor({
    left: chart.valToPos(times[at], "x"),
    top: value === null ? chart.over.clientHeight / 2 : chart.valToPos(value, "y"),
  });
}

function optionsOf(latest: Latest, width: number, setCursor: (cursor: Cursor | undefined) => void): uPlot.Options {
  const { lines, max } = latest.current;
  const axis: uPlot.Axis = { ...axisLook(), ticks: { show: false } };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    focus: { alpha: 0.25 },
    scales: {
      x: { time: true, range: () => [latest.current.from, latest.current.until] },
      y: max === undefined ? {} : { range: [0, max] },
    },
    axes: [
      { ...axis, space: 70, size: 28, values: (_, at) => at.map((seconds) => tickText(seconds, latest.current)) },
      { ...axis, size: AXIS_PX, space: 32, values: (_, at) => at.map((value) => value.toLocaleString()) },
    ],
    cursor: {
      // A selection is not published: it would be reported by each chart.
      sync: { key: SYNC_KEY, setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
      drag: { x: true, y: false, setScale: false },
      focus: { prox: NEAR_PX },
      points: { size: 6 },
      y: false,
    },
    series: [
      {},
      ...lines.map(({ label, index, key }): uPlot.Series => {
        const { token, dash } = styleOf(index);
        const color = themeColor(token);
        const isolated = (): number[] | null => lonely(latest.current.lines.find((line) => line.key === key)?.values ?? []);
        return {
          label,
          stroke: color,
          width: 1.5,
          dash: [...dash],
          points: { show: false, size: 5, fill: color, filter: isolated },
          spanGaps: false,
        };
      }),
    ],
    hooks: hooksOf(latest, setCursor),
  };
}

function tickText(seconds: number, { from, until }: LineChartProps): string {
  const span = until - from;
  return (span > DAY_SECONDS ? DAY : span < 600 ? CLOCK_SECONDS : CLOCK).format(seconds * 1_000);
}

function hooksOf(latest: Latest, setCursor: (cursor: Cursor | undefined) => void): uPlot.Hooks.Arrays {
  let was_drag = false;
  const hasAttention = (chart: uPlot): boolean => chart.root.matches(":hover") || chart.root.parentElement === document.activeElement;
  return {
    ready: [
      (chart) => {
        chart.over.addEventListener("mousedown", () => (was_drag = false));
        chart.over.addEventListener("click", () => {
          const { idx } = chart.cursor;
          if (was_drag || idx === null || idx === undefined) return;
          latest.current.onPick(idx, latest.current.lit);
        });
      },
    ],
    setCursor: [
      (chart) => {
        const { idx, left = -1 } = chart.cursor;
        if (idx === null || idx === undefined || left < 0) return setCursor(undefined);
        setCursor({ at: idx, left, width: chart.over.clientWidth, shows: hasAttention(chart) });
      },
    ],
    setSeries: [
      (_, at, options) => {
        if ("focus" in options && options.focus === true) latest.current.onLit(at === null ? undefined : latest.current.lines[at - 1]?.key);
      },
    ],
    setSelect: [
      (chart) => {
        const { left, width } = chart.select;
        chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        was_drag = width >= DRAG_PX_MIN;
        if (was_drag) latest.current.onZoom(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
      },
    ],
    draw: [(chart) => drawMarkers(chart, latest.current.markers)],
  };
}

/** Draws a vertical line for each event. The list under the chart names them. */
function drawMarkers(chart: uPlot, markers: readonly Marker[]): void {
  const { ctx, bbox } = chart;
  const size = MARKER_PX * devicePixelRatio;
  ctx.save();
  for (const { at, tone } of markers) {
    const x = Math.round(chart.valToPos(at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = ctx.fillStyle = themeColor(tone);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x - size, bbox.top);
    ctx.lineTo(x + size, bbox.top);
    ctx.lineTo(x, bbox.top + size * 1.5);
    ctx.fill();
  }
  ctx.restore();
}
