import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "./health-chart.css";
import { Card } from "../../ui/index.ts";
import { chartText, lonely, type Series } from "./health-series.ts";

const HEIGHT_PX = 150;
const DAY_SECONDS = 86_400;
/** Tokens of the lines, the first first; more lines than these begin again, dashed. */
const LINE_TOKENS = ["--accent", "--info", "--warn", "--bad"] as const;
/** Charts with this key move their cursors together. */
const SYNC_KEY = "robot-health";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const MOMENT = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export interface HealthChartProps {
  title: string;
  unit: string;
  /** The scale goes from 0 to this; absent: as far as the values do. */
  max?: number;
  times: readonly number[];
  series: readonly Series[];
  from: number;
  until: number;
}

/** Lines over time. Where nothing was said there is no line; the cursors of all charts of a page are at the same time. */
export function HealthChart(props: HealthChartProps) {
  const { title, unit, times, series } = props;
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const theme = useThemeName();
  const shape = JSON.stringify([title, unit, props.max, series.map(({ label }) => label), props.until - props.from]);
  const data = [times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData;
  // What it draws and how is made anew only when it is something else; numbers go into the one that is there.
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    const element = frame.current!;
    const drawn = new uPlot(optionsOf(latest, element.clientWidth), data, element);
    chart.current = drawn;
    const sized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      drawn.destroy();
      chart.current = undefined;
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape, theme]);
  useEffect(() => {
    chart.current?.setData([times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData);
  }, [times, series]);
  return (
    <Card className="!px-3 !pt-2 !pb-1">
      <h3 className="text-xs font-medium text-muted">{`${title}, ${unit}`}</h3>
      <div ref={frame} role="img" aria-label={chartText(title, unit, series)} className="health-chart" />
    </Card>
  );
}

/** The theme as it is shown: colours on a canvas do not follow it by themselves. */
function useThemeName(): string {
  const [name, setName] = useState(() => document.documentElement.dataset.theme ?? "");
  useEffect(() => {
    const watcher = new MutationObserver(() => setName(document.documentElement.dataset.theme ?? ""));
    watcher.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => watcher.disconnect();
  }, []);
  return name;
}

const lastOf = (values: readonly (number | null)[] | undefined): number | null => values?.findLast((value) => value !== null) ?? null;
const valueText = (value: number | null, unit: string): string => (value === null ? "—" : `${Math.round(value * 10) / 10} ${unit}`);

function optionsOf(latest: { current: HealthChartProps }, width: number): uPlot.Options {
  const { series, unit, max, from, until } = latest.current;
  const style = getComputedStyle(document.documentElement);
  const colour = (token: string): string => style.getPropertyValue(token).trim();
  const lineColour = (index: number): string => colour(LINE_TOKENS[index % LINE_TOKENS.length]!);
  const is_long = until - from > DAY_SECONDS;
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px Inter Variable, sans-serif",
  };
  return {
    width,
    height: HEIGHT_PX,
    scales: {
      x: { time: true, range: () => [latest.current.from, latest.current.until] },
      y: max === undefined ? {} : { range: [0, max] },
    },
    axes: [
      { ...axis, space: 60, size: 28, values: (_, at) => at.map((seconds) => (is_long ? DAY : CLOCK).format(seconds * 1_000)) },
      { ...axis, size: 40, space: 28 },
    ],
    legend: { markers: { width: 2 } },
    cursor: { sync: { key: SYNC_KEY }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    series: [
      { label: "At", value: (_, seconds) => (seconds === null ? "last" : MOMENT.format(seconds * 1_000)) },
      ...series.map(({ label }, index): uPlot.Series => ({
        label: label.slice(0, 40),
        stroke: lineColour(index),
        width: 1.5,
        ...(index < LINE_TOKENS.length ? {} : { dash: [4, 3] }),
        // Only where no line leads to.
        points: { show: false, size: 5, fill: lineColour(index), filter: () => lonely(latest.current.series[index]?.values ?? []) },
        spanGaps: false,
        value: (_, value, __, at) => valueText(at === null ? lastOf(latest.current.series[index]?.values) : value, unit),
      })),
    ],
  };
}
