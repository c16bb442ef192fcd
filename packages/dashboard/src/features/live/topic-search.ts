/** What of a robot's topics is looked at. */
export interface TopicSearch {
  q?: string;
  topic?: string;
  /** Where topics of several types share the name. */
  type?: string;
  /** Messages a second, at most; absent: DEFAULT_RATE. */
  rate?: number;
  full?: true;
  /** Fields that are drawn, as paths with commas between them. */
  plot?: string;
}

/** More a second than anybody reads, and as few as a line carries. */
export const DEFAULT_RATE = 5;
const RATE_MAX = 1_000;
const TEXT_CHARACTERS_MAX = 256;
const PLOT_CHARACTERS_MAX = 2_000;
/** Fields that are drawn at a time: as many as there are colours. */
export const PLOTTED_MAX = 6;

export function readTopicSearch(search: Record<string, unknown>): TopicSearch {
  const found: TopicSearch = {};
  for (const name of ["q", "topic", "type", "plot"] as const) {
    const value = search[name];
    const most = name === "plot" ? PLOT_CHARACTERS_MAX : TEXT_CHARACTERS_MAX;
    if ((typeof value === "string" || typeof value === "number") && value !== "" && String(value).length <= most)
      found[name] = String(value);
  }
  const rate = search["rate"];
  if (typeof rate === "number" && rate > 0 && rate <= RATE_MAX) found.rate = rate;
  if (search["full"] === true) found.full = true;
  return found;
}

export const plottedOf = ({ plot }: TopicSearch): string[] =>
  plot === undefined ? [] : plot.split(",").filter(Boolean).slice(0, PLOTTED_MAX);

/** The search that draws a field, or does not any more. */
export function togglePlot(search: TopicSearch, field: string): string | undefined {
  const plotted = plottedOf(search);
  const next = plotted.includes(field) ? plotted.filter((one) => one !== field) : [...plotted, field].slice(-PLOTTED_MAX);
  return next.length === 0 ? undefined : next.join(",");
}
