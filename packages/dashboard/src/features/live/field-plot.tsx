import { X } from "lucide-react";
import { useEffect, useRef } from "react";
import type uPlot from "uplot";
import { axisLook, themeColor, useChart } from "../../ui/chart.ts";
import { IconButton, TextLine } from "../../ui/index.ts";
import { type createSeries, numberAt, WINDOW_S } from "./topic-series.ts";

const HEIGHT_PX = 240;
const DRAW_MS = 200;
const TOKENS = ["--info", "--accent", "--warn", "--bad", "--muted", "--ink"] as const;
/** Dash patterns of the lines, so that they can be distinguished without their colors. */
const DASHES: readonly number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 4], [14, 5]];

const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

interface FieldPlotProps {
  fields: readonly string[];
  series: ReturnType<typeof createSeries>;
  /** The latest message. Its values are shown beside the names of the fields. */
  newest: unknown;
  onRemove: (field: string) => void;
}

/** Plots numeric fields over the last minute. */
export function FieldPlot({ fields, series, newest, onRemove }: FieldPlotProps) {
  const holder = useRef<HTMLDivElement>(null);
  const key = JSON.stringify(fields);
  const chart = useChart(holder, key, { options: (width) => optionsOf(fields, width), data: () => series.read(fields) });
  useEffect(() => {
    const timer = setInterval(() => chart.current?.setData(series.read(JSON.parse(key) as string[])), DRAW_MS);
    return () => clearInterval(timer);
  }, [chart, key, series]);
  return (
    <figure
      className="min-w-0 rounded-lg border border-line bg-raised p-3"
      aria-label={`The last ${WINDOW_S} seconds of ${fields.join(", ")}`}
    >
      <div ref={holder} className="min-w-0 overflow-hidden" />
      <figcaption className="mt-1 flex flex-wrap gap-x-4 gap-y-1">
        {fields.map((field, index) => (
          <span key={field} className="flex min-w-0 items-center gap-1.5 font-mono text-xs">
            <svg width="22" height="4" aria-hidden>
              <line
                x1="0"
                y1="2"
                x2="22"
                y2="2"
                strokeWidth="2.5"
                strokeDasharray={DASHES[index]?.join(" ")}
                stroke={`var(${TOKENS[index]})`}
              />
            </svg>
            <TextLine>{field === "" ? "value" : field}</TextLine>
            <span className="text-muted tabular-nums">{shownNumber(numberAt(newest, field))}</span>
            <IconButton
              label={`Remove ${field} from the chart`}
              icon={X}
              size={12}
              onClick={() => onRemove(field)}
              className="!h-[24px] !w-[24px]"
            />
          </span>
        ))}
      </figcaption>
    </figure>
  );
}

const shownNumber = (value: number | undefined): string => (value === undefined ? "not a number" : Number(value.toPrecision(6)).toString());

function optionsOf(fields: readonly string[], width: number): uPlot.Options {
  const axis: uPlot.Axis = { ...axisLook(), ticks: { stroke: themeColor("--line"), width: 1 } };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      // Always the full window, so that the plot scrolls and does not stretch.
      x: { time: true, range: (_, __, max) => (Number.isFinite(max) ? [max - WINDOW_S, max] : [0, WINDOW_S]) },
    },
    axes: [
      { ...axis, space: 70, values: (_, at) => at.map((seconds) => CLOCK.format(seconds * 1_000)) },
      { ...axis, size: 60 },
    ],
    series: [
      {},
      ...fields.map((field, index) => ({
        label: field,
        stroke: themeColor(TOKENS[index] ?? "--ink"),
        width: 2,
        dash: DASHES[index] ?? [],
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}
