import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";
import { query } from "../../api/queries.ts";
import { EmptyState, QueryState, Section, Segments, Skeleton, useNow } from "../../ui/index.ts";
import { HEALTH_RANGES, type HealthRange } from "./health-range.ts";
import { HISTORY_POINTS, hasValues, type HealthSeries, seriesOf, sinceOf } from "./health-series.ts";

// The chart library is a separate chunk, so that the current values appear first.
const HealthChart = lazy(async () => ({ default: (await import("./health-chart.tsx")).HealthChart }));
const route = getRouteApi("/app/robots/$id/health");
const WORDS: Record<HealthRange, string> = { "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const RANGES = (Object.keys(HEALTH_RANGES) as HealthRange[]).map((value) => ({
  value,
  label: value.replace(/(\d+)/, "$1 "),
  title: WORDS[value],
}));

/** The health history of a robot. The range is in the URL. */
export function HealthHistory({ robot_id }: { robot_id: string }) {
  const { range = "1h" } = route.useSearch();
  const seconds = HEALTH_RANGES[range];
  const since = sinceOf(useNow(), seconds);
  const history = useQuery({
    ...query("getRobotHealthHistory", { params: { id: robot_id }, query: { since, points: HISTORY_POINTS } }),
    placeholderData: keepPreviousData,
  });
  return (
    <Section title="History" actions={<Ranges robot_id={robot_id} range={range} />}>
      <QueryState query={history} rows={6}>
        {({ items }) =>
          items.length === 0 ? (
            <EmptyState title={`No data for the last ${WORDS[range]}`}>
              The robot was offline or has not reported health data. One data point per minute is stored.
            </EmptyState>
          ) : (
            <Charts points={items} since={since} seconds={seconds} />
          )
        }
      </QueryState>
    </Section>
  );
}

function Ranges({ robot_id, range }: { robot_id: string; range: HealthRange }) {
  const navigate = useNavigate();
  return (
    <Segments
      label="Range"
      options={RANGES}
      value={range}
      onChange={(to) => void navigate({ to: "/robots/$id/health", params: { id: robot_id }, search: { range: to }, replace: true })}
    />
  );
}

const CHARTS: readonly { name: Exclude<keyof HealthSeries, "times">; title: string; unit: string; max?: number }[] = [
  { name: "cpu", title: "CPU", unit: "%", max: 100 },
  { name: "memory", title: "Memory", unit: "%", max: 100 },
  { name: "disks", title: "Disks", unit: "%", max: 100 },
  { name: "temperature", title: "Temperature", unit: "°C" },
  { name: "battery", title: "Battery", unit: "%", max: 100 },
];

function Charts({ points, since, seconds }: { points: Parameters<typeof seriesOf>[0]; since: string; seconds: number }) {
  const series = useMemo(() => seriesOf(points, seconds), [points, seconds]);
  const from = Date.parse(since) / 1_000;
  return (
    <Suspense fallback={<Skeleton rows={6} />}>
      <div className="grid gap-3 lg:grid-cols-2">
        {CHARTS.filter(({ name }) => hasValues(series[name])).map(({ name, ...rest }) => (
          <HealthChart key={name} {...rest} times={series.times} series={series[name]} from={from} until={from + seconds} />
        ))}
      </div>
    </Suspense>
  );
}
