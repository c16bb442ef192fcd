import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { GitCompareArrows } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import type { RobotMetrics as Metrics } from "@roamfleet/protocol/routes";
import { ObjectPicker } from "../../api/object-picker.tsx";
import { query } from "../../api/queries.ts";
import { type MetricRange, PANELS_MAX } from "../../search.ts";
import { Button, Command, EmptyState, FormDialog, lazyPart, QueryState, Section, Segments, Skeleton, useNow } from "../../ui/index.ts";
import { chartsOf, METRIC_RANGES, metricPeriod } from "./metric-charts.ts";
import { robotLines } from "./robot-text.ts";
import { useRobot } from "./use-robot.ts";

// The chart library is a separate chunk, so that the page appears first.
const HealthChart = lazyPart(async () => (await import("./health-chart.tsx")).HealthChart);
const route = getRouteApi("/app/robots/$id/metrics");
const WORDS: Record<MetricRange, string> = { "1h": "hour", "24h": "24 hours", "7d": "7 days" };
const RANGES = (Object.keys(METRIC_RANGES) as MetricRange[]).map((value) => ({
  value,
  label: value.replace(/(\d+)/, "$1 "),
  title: `Last ${WORDS[value]}`,
}));

/** The metrics of a robot as charts with a common time axis. The range is in the URL. */
export function RobotMetrics() {
  const robot = useRobot();
  const { range = "1h" } = route.useSearch();
  const period = metricPeriod(useNow(), range);
  const metrics = useQuery({
    ...query("getRobotMetrics", { params: { id: robot?.id ?? "" }, query: period }),
    enabled: robot !== undefined,
    placeholderData: keepPreviousData,
  });
  const [is_comparing, setComparing] = useState(false);
  if (robot === undefined) return null;
  const names = [...new Set(metrics.data?.data.series.map(({ name }) => name))];
  return (
    <>
      <Section
        title="Metrics"
        actions={
          <div className="flex flex-wrap items-center justify-end gap-2">
            <Ranges robot_id={robot.id} range={range} />
            {names.length > 0 && (
              <Button icon={GitCompareArrows} onClick={() => setComparing(true)}>
                Compare…
              </Button>
            )}
          </div>
        }
      >
        <QueryState query={metrics} rows={6}>
          {({ data }) =>
            data.series.length === 0 ? (
              <EmptyState title={`No samples for the last ${WORDS[range]}`}>
                By default, agents measure every 10 seconds and send the samples every 15 minutes. A robot that was offline sends its
                samples when it reconnects.
              </EmptyState>
            ) : (
              <Charts metrics={data} seconds={METRIC_RANGES[range].seconds} />
            )
          }
        </QueryState>
      </Section>
      <div className="max-w-xl">
        <Command>{robotLines.metrics(robot.id)}</Command>
      </div>
      {is_comparing && <CompareDialog robot_id={robot.id} names={names} range={range} onClose={() => setComparing(false)} />}
    </>
  );
}

/** Chooses another robot and opens the metrics of both, in one chart for each of the first metrics. */
function CompareDialog({
  robot_id,
  names,
  range,
  onClose,
}: {
  robot_id: string;
  names: readonly string[];
  range: MetricRange;
  onClose: () => void;
}) {
  const navigate = useNavigate();
  const [other, setOther] = useState<string>();
  const shown = names.slice(0, PANELS_MAX);
  const open = (): void => {
    if (other === undefined) return;
    const panels = shown.map((name) => ({ name, robot_id: [robot_id, other], group_by: "robot" }));
    void navigate({ to: "/explore", search: { panels, range } });
  };
  return (
    <FormDialog
      title="Compare metrics"
      description={
        shown.length < names.length
          ? `Opens the first ${shown.length} of ${names.length} metrics. There you can choose others.`
          : "Opens each metric with both robots in one chart."
      }
      verb="Compare"
      locked={other === undefined || other === robot_id}
      onClose={onClose}
      onSubmit={open}
    >
      <ObjectPicker
        kind="robot"
        label="Robot"
        id={other}
        hints
        error={other === robot_id ? "Choose another robot" : undefined}
        onChoose={setOther}
      />
    </FormDialog>
  );
}

function Ranges({ robot_id, range }: { robot_id: string; range: MetricRange }) {
  const navigate = useNavigate();
  return (
    <Segments
      label="Range"
      options={RANGES}
      value={range}
      onChange={(to) => void navigate({ to: "/robots/$id/metrics", params: { id: robot_id }, search: { range: to }, replace: true })}
    />
  );
}

function Charts({ metrics, seconds }: { metrics: Metrics; seconds: number }) {
  const { times, charts } = useMemo(() => chartsOf(metrics), [metrics]);
  const from = Date.parse(metrics.since) / 1_000;
  return (
    <Suspense fallback={<Skeleton rows={6} />}>
      <div className="grid gap-3 lg:grid-cols-2">
        {charts.map(({ name, unit, max, series }) => (
          <HealthChart
            key={name}
            title={name}
            unit={unit}
            {...(max === undefined ? {} : { max })}
            times={times}
            series={series}
            from={from}
            until={from + seconds}
          />
        ))}
      </div>
      {metrics.omitted_series > 0 && (
        <p className="mt-3 text-xs text-muted">{`${metrics.omitted_series} further series are not shown. The command below shows those that you name.`}</p>
      )}
    </Suspense>
  );
}
