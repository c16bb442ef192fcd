import "uplot/dist/uPlot.min.css";
import { type RefObject, useEffect, useRef, useState } from "react";
import uPlot from "uplot";

/** The current theme. Colors on a canvas do not follow the theme automatically. */
function useThemeName(): string {
  const [name, setName] = useState(() => document.documentElement.dataset.theme ?? "");
  useEffect(() => {
    const watcher = new MutationObserver(() => setName(document.documentElement.dataset.theme ?? ""));
    watcher.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => watcher.disconnect();
  }, []);
  return name;
}

/** Returns a color of the current theme. */
export const themeColor = (token: string): string => getComputedStyle(document.documentElement).getPropertyValue(token).trim();

export const axisLook = (): uPlot.Axis => ({
  stroke: themeColor("--muted"),
  grid: { stroke: themeColor("--line"), width: 1 },
  font: "11px Inter Variable, sans-serif",
});

interface ChartParts {
  options: (width: number) => uPlot.Options;
  data: () => uPlot.AlignedData;
}

/**
 * Draws a chart that follows the width of its element. The chart is created again only if `key` or the theme changes; set new values on the
 * returned chart. Import this file from lazily loaded code only: it contains the chart library.
 */
export function useChart(frame: RefObject<HTMLElement | null>, key: string, parts: ChartParts): RefObject<uPlot | undefined> {
  const chart = useRef<uPlot>(undefined);
  const theme = useThemeName();
  const latest = useRef(parts);
  latest.current = parts;
  useEffect(() => {
    const element = frame.current!;
    const options = latest.current.options(element.clientWidth);
    const drawn = new uPlot(options, latest.current.data(), element);
    chart.current = drawn;
    const sized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: options.height }));
    sized.observe(element);
    return () => {
      sized.disconnect();
      drawn.destroy();
      chart.current = undefined;
    };
  }, [frame, key, theme]);
  return chart;
}
