import { lastOf } from "@roamfleet/protocol/metric-values";
import { useEffect, useRef } from "react";
import type uPlot from "uplot";
import "./health-chart.css";
import { axisLook, themeColor, useChart } from "../../ui/chart.ts";
import { Card } from "../../ui/index.ts";
import { chartText, lonely, type Series, valueText } from "./health-series.ts";

const HEIGHT_PX = 150;
const DAY_SECONDS = 86_400;
/** Color tokens of the lines in order. Further lines reuse them, dashed. */
const LINE_TOKENS = ["--accent", "--info", "--warn", "--bad"] as const;
/** Charts with the same key synchronize their cursors. */
const SYNC_KEY = "robot-health";

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const MOMENT = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

interface HealthChartProps {
  title: string;
  unit: string;
  /** Upper end of the value axis, which starts at 0. Default: the axis fits the values. */
  max?: number;
  times: readonly number[];
  series: readonly Series[];
  from: number;
  until: number;
}

/** A line chart over time, with gaps where there is no data. The cursors of all charts on a page are synchronized. */
export function HealthChart(props: HealthChartProps) {
  const { title, unit, times, series } = props;
  const frame = useRef<HTMLDivElement>(null);
  const shape = JSON.stringify([title, unit, props.max, series.map(({ label }) => label), props.until - props.from]);
  const latest = useRef(props);
  latest.current = props;
  const chart = useChart(frame, shape, { options: (width) => optionsOf(latest, width), data: () => dataOf(latest.current) });
  useEffect(() => chart.current?.setData(dataOf({ times, series })), [chart, times, series]);
  return (
    <Card className="!px-3 !pt-2 !pb-1">
      <h3 className="text-xs font-medium text-muted">{unit === "" ? title : `${title}, ${unit}`}</h3>
      <div ref={frame} role="img" aria-label={chartText(title, unit, series)} className="health-chart" />
    </Card>
  );
}

const dataOf = ({ times, series }: Pick<HealthChartProps, "times" | "series">): uPlot.AlignedData =>
  [times, ...series.map(({ values }) => values)] as unknown as uPlot.AlignedData;

function optionsOf(latest: { current: HealthChartProps }, width: number): uPlot.Options {
  const { series, unit, max, from, until } = latest.current;
  const lineColor = (index: number): string => themeColor(LINE_TOKENS[index % LINE_TOKENS.length]!);
  const is_long = until - from > DAY_SECONDS;
  const axis: uPlot.Axis = { ...axisLook(), ticks: { show: false } };
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
      { label: "Time", value: (_, seconds) => (seconds === null ? "latest" : MOMENT.format(seconds * 1_000)) },
      ...series.map(({ label }, index): uPlot.Series => ({
        label: label.slice(0, 40),
        stroke: lineColor(index),
        width: 1.5,
        ...(index < LINE_TOKENS.length ? {} : { dash: [4, 3] }),
        // Draw points only for isolated values: no line connects them, so they would be invisible.
        points: { show: false, size: 5, fill: lineColor(index), filter: () => lonely(latest.current.series[index]?.values ?? []) },
        spanGaps: false,
        value: (_, value, __, at) => valueText(at === null ? lastOf(latest.current.series[index]?.values ?? []) : value, unit),
      })),
    ],
  };
}
