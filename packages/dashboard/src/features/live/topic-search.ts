/** The URL parameters of the topics tab. */
export interface TopicSearch {
  q?: string;
  topic?: string;
  /** Set if several topics with different types have this name. */
  type?: string;
  /** Maximum messages per second. Default: DEFAULT_RATE. */
  rate?: number;
  full?: true;
  /** Paths of the plotted fields, separated by commas. */
  plot?: string;
}

/** Messages per second: enough for reading, and few enough for slow connections. */
export const DEFAULT_RATE = 5;
const RATE_MAX = 1_000;
const TEXT_CHARACTERS_MAX = 256;
const PLOT_CHARACTERS_MAX = 2_000;
/** Maximum plotted fields: the number of colors. */
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

/** Returns the `plot` parameter with a field added or removed. */
export function togglePlot(search: TopicSearch, field: string): string | undefined {
  const plotted = plottedOf(search);
  const next = plotted.includes(field) ? plotted.filter((one) => one !== field) : [...plotted, field].slice(-PLOTTED_MAX);
  return next.length === 0 ? undefined : next.join(",");
}
