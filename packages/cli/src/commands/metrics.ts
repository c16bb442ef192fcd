import { countersAmong, lastOf, METRIC_NAMES_MAX, provingNames, shownValues, unitOf } from "@roamfleet/protocol/metric-values";
import type { Body } from "@roamfleet/sdk";
import { defineCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { bytes, duration, readTime, type TimeOption } from "../duration.ts";
import { line } from "../text.ts";

type Series = Body<"getRobotMetrics">["data"]["series"][number];

/** Number of intervals, which is the width of the curves in characters. */
const POINTS = 40;

interface Options {
  since?: TimeOption;
  until?: TimeOption;
}

export const show = defineCommand<[string, string[], Options]>(
  "Show metrics of a robot: the latest, lowest and highest value of each, and its curve. Robots send samples every 15 minutes by default.",
  (command) =>
    command
      .argument("<id>", "ID of the robot")
      .argument("[names...]", "Names of metrics, such as cpu_percent (default: all)")
      .option("--since <time>", "Start of the period: an age such as 10m, 2h or 3d, or an RFC 3339 time (default: an hour ago)", readTime)
      .option("--until <time>", "End of the period, in the same form (default: now)", readTime),
  async (context, id, names, { since, until }) => {
    const { out } = context;
    const period = { since: since?.(context.now()), until: until?.(context.now()), points: POINTS };
    const query = { ...period, names: names.length === 0 ? undefined : names.join(",") };
    const answer = await (await context.client()).getRobotMetrics({ params: { id }, query });
    const { series, step_seconds, omitted_series } = answer.data;
    await out.result(answer, async () => {
      if (series.length === 0)
        return out.note("No samples in this period. Robots send them every 15 minutes, unless their config file says otherwise.");
      const isCounterHere = countersAmong([...series, ...(await readProof(context, id, { ...period, points: 1 }, series))]);
      const shown = series.map((one) => {
        const is_counter = isCounterHere(one.name);
        return { one, is_counter, values: shownValues(one, step_seconds, is_counter) };
      });
      await out.table(shown, [
        { title: "METRIC", value: ({ one }) => nameOf(one) },
        { title: "LATEST", value: ({ one, is_counter, values }) => valueText(one.name, lastOf(values), is_counter) },
        {
          title: "LOWEST",
          value: ({ one, is_counter, values }) => valueText(one.name, lowest(is_counter ? values : one.min), is_counter),
        },
        {
          title: "HIGHEST",
          value: ({ one, is_counter, values }) => valueText(one.name, highest(is_counter ? values : one.max), is_counter),
        },
        { title: `${duration(step_seconds * POINTS)} IN STEPS OF ${duration(step_seconds)}`, value: ({ values }) => curve(values) },
      ]);
      if (omitted_series > 0) out.note(line`${omitted_series} further series are not shown. Name the metrics to show.`);
    });
  },
  ["rf metrics rob_…", "rf metrics rob_… cpu_percent memory_used_bytes --since 1d"],
);

/** Returns series that may prove that the shown ones are parts of histograms or summaries, if those are not among the shown ones. */
async function readProof(
  context: Context,
  id: string,
  period: { since: string | undefined; until: string | undefined; points: number },
  shown: readonly Series[],
): Promise<Series[]> {
  const isCounterHere = countersAmong(shown);
  const names = [...provingNames(shown.map(({ name }) => name).filter((name) => !isCounterHere(name)))].slice(0, METRIC_NAMES_MAX);
  if (names.length === 0) return [];
  return (await (await context.client()).getRobotMetrics({ params: { id }, query: { ...period, names: names.join(",") } })).data.series;
}

/** Formats `disk_used_bytes /data`. */
const nameOf = ({ name, labels }: Series): string => [name, ...Object.values(labels)].join(" ");

const numbers = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);
export const lowest = (values: readonly (number | null)[]): number | undefined =>
  lastOf(values) === undefined ? undefined : Math.min(...numbers(values));
export const highest = (values: readonly (number | null)[]): number | undefined =>
  lastOf(values) === undefined ? undefined : Math.max(...numbers(values));

const SMALL_DIGITS = 3;

/** Formats a value of a metric in the unit that its name shows. */
export function valueText(name: string, value: number | undefined, is_counter: boolean): string {
  if (value === undefined) return "–";
  const rate = is_counter ? "/s" : "";
  switch (unitOf(name)) {
    case "bytes":
      return `${bytes(value)}${rate}`;
    case "percent":
      return `${value.toFixed(1)}%`;
    case "celsius":
      return `${value.toFixed(1)} °C`;
    case "seconds":
      return `${rounded(value)} s${rate}`;
    case "none":
      return `${rounded(value)}${rate}`;
  }
}

const rounded = (value: number): string => (Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(SMALL_DIGITS))));

const BARS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/** Draws values as bars between the lowest and the highest one. A space stands for an interval without samples. */
export function curve(values: readonly (number | null)[]): string {
  const [min, max] = [lowest(values) ?? 0, highest(values) ?? 0];
  const barOf = (value: number): string => BARS[max === min ? 0 : Math.round(((value - min) / (max - min)) * (BARS.length - 1))] ?? " ";
  return values.map((value) => (value === null ? " " : barOf(value))).join("");
}
