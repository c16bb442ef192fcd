import type { HealthSnapshot, Robot } from "@roamfleet/protocol/routes";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense, useMemo } from "react";
import { query } from "../../api/queries.ts";
import type { HealthRange } from "../../search.ts";
import {
  Badge,
  Bytes,
  byteText,
  Card,
  CardList,
  Command,
  counted,
  Duration,
  EmptyState,
  FailedSection,
  hasFailed,
  lazyPart,
  Meter,
  QueryState,
  Section,
  Segments,
  Skeleton,
  Text,
  TextLine,
  Time,
  type Tone,
  useNow,
} from "../../ui/index.ts";
import { hasValues, type HealthSeries, HISTORY_POINTS, seriesOf, sinceOf } from "./health-series.ts";
import { robotLines } from "./robot-text.ts";
import { healthQuery, useRobot } from "./use-robot.ts";

/** The latest reported health of a robot and its history. */
export function RobotHealth() {
  const robot = useRobot();
  if (robot === undefined) return null;
  if (robot.health === "unknown")
    return (
      <EmptyState title="No health data yet" command={robotLines.health(robot.id)}>
        Robots report their health once a minute while they are connected.
      </EmptyState>
    );
  return (
    <>
      <Latest robot={robot} />
      <HealthHistory robot_id={robot.id} />
      <div className="max-w-xl">
        <Command>{robotLines.health(robot.id)}</Command>
      </div>
    </>
  );
}

function Latest({ robot }: { robot: Robot }) {
  const health = useQuery(healthQuery(robot.id));
  const title = robot.status === "online" ? "Current values" : "Last reported values";
  if (hasFailed(health)) return <FailedSection title={title} query={health} />;
  return (
    <QueryState query={health}>
      {({ data }) => (
        <>
          <Section
            title={title}
            actions={
              <span className="text-xs text-muted">
                measured <Time at={data.at} />
              </span>
            }
          >
            <HealthNow health={data} />
          </Section>
          <div className="grid gap-x-6 lg:grid-cols-2">
            <HealthChecks checks={data.checks} />
            <HealthMetrics metrics={data.metrics} network={data.network} />
          </div>
        </>
      )}
    </QueryState>
  );
}

// The chart library is a separate chunk, so that the current values appear first.
const HealthChart = lazyPart(async () => (await import("./health-chart.tsx")).HealthChart);
const route = getRouteApi("/app/robots/$id/health");
const HEALTH_RANGES: Record<HealthRange, number> = { "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 };
const WORDS: Record<HealthRange, string> = { "1h": "1 hour", "24h": "24 hours", "7d": "7 days", "30d": "30 days" };
const RANGES = (Object.keys(HEALTH_RANGES) as HealthRange[]).map((value) => ({
  value,
  label: value.replace(/(\d+)/, "$1 "),
  title: WORDS[value],
}));

/** The health history of a robot. The range is in the URL. */
function HealthHistory({ robot_id }: { robot_id: string }) {
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
            <EmptyState title={`No data for the last ${range === "1h" ? "hour" : WORDS[range]}`}>
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

/** The current measurements as bars and numbers. */
function HealthNow({ health: { cpu, memory, disks, battery, uptime_seconds } }: { health: HealthSnapshot }) {
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Measure label="CPU" value={`${Math.round(cpu.percent)}%`} note={`load ${cpu.load_1m.toFixed(2)} on ${counted(cpu.cores, "core")}`}>
        <Meter label="CPU" value={cpu.percent} />
      </Measure>
      <Measure label="Memory" value={percentText(memory)} note={`${byteText(memory.used_bytes)} of ${byteText(memory.total_bytes)}`}>
        <Meter label="Memory" value={memory.used_bytes} max={memory.total_bytes} />
      </Measure>
      {disks.map((disk) => (
        <Measure
          key={disk.mount}
          label={`Disk ${disk.mount}`}
          value={percentText(disk)}
          note={`${byteText(disk.used_bytes)} of ${byteText(disk.total_bytes)}`}
        >
          <Meter label={`Disk ${disk.mount}`} value={disk.used_bytes} max={disk.total_bytes} />
        </Measure>
      ))}
      {cpu.temperature_celsius !== null && <Measure label="Temperature" value={`${Math.round(cpu.temperature_celsius)} °C`} note="CPU" />}
      {battery !== null && (
        <Measure label="Battery" value={`${Math.round(battery.percent)}%`} note={battery.charging ? "charging" : "discharging"}>
          <Meter label="Battery" value={battery.percent} tone={chargeTone(battery.percent)} />
        </Measure>
      )}
      <Measure label="Uptime" value={<Duration seconds={uptime_seconds} />} note="since boot" />
    </div>
  );
}

export const percentText = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): string =>
  total_bytes > 0 ? `${Math.round((100 * used_bytes) / total_bytes)}%` : "—";

function Measure({ label, value, note, children }: { label: string; value: ReactNode; note: string; children?: ReactNode }) {
  return (
    <Card className="!px-4 !py-3">
      <TextLine className="text-xs text-muted">{label}</TextLine>
      <p className="text-xl font-semibold tabular-nums">{value}</p>
      <p className="mb-1.5 truncate text-xs text-muted">{note}</p>
      {children}
    </Card>
  );
}

/** The charge: red when nearly empty, unlike usage. */
export const chargeTone = (percent: number): Tone => (percent <= 10 ? "bad" : percent <= 25 ? "warn" : "ok");

const TONES: Record<string, Tone> = { ok: "ok", warn: "warn", error: "bad" };
const WORST_FIRST = ["error", "warn", "ok"];

/** The custom checks of the robot, worst first. */
function HealthChecks({ checks }: { checks: HealthSnapshot["checks"] }) {
  return (
    <Section title="Checks">
      <CardList
        label="Checks"
        items={checks.toSorted((a, b) => WORST_FIRST.indexOf(a.status) - WORST_FIRST.indexOf(b.status))}
        empty="No custom checks"
      >
        {({ name, status, message }) => (
          <li key={name} className="flex items-baseline gap-3 px-4 py-2">
            <Badge tone={TONES[status] ?? "idle"}>{status}</Badge>
            <span className="min-w-0">
              <Text className="font-medium">{name}</Text> {message !== "" && <Text className="text-muted">{message}</Text>}
            </span>
          </li>
        )}
      </CardList>
    </Section>
  );
}

/** Network counters and custom metrics of the robot. */
function HealthMetrics({ metrics, network }: Pick<HealthSnapshot, "metrics" | "network">) {
  const own = Object.entries(metrics);
  const title = own.length === 0 ? "Network" : "Network and metrics";
  return (
    <Section title={title}>
      <Card className="!p-0">
        <dl className="max-h-80 divide-y divide-line overflow-y-auto" tabIndex={0} aria-label={title}>
          {network.map(({ name, rx_bytes, tx_bytes, addresses }) => (
            <div key={name} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2">
              <dt className="font-medium">
                <Text>{name}</Text>
              </dt>
              <dd className="min-w-0 flex-1 font-mono text-xs text-muted">
                <Text>{addresses.join(", ")}</Text>
              </dd>
              <dd className="text-xs text-muted tabular-nums">{`${byteText(rx_bytes)} in, ${byteText(tx_bytes)} out`}</dd>
            </div>
          ))}
          {own.map(([name, value]) => (
            <div key={name} className="flex items-baseline justify-between gap-3 px-4 py-2">
              <dt className="min-w-0">
                <Text>{name}</Text>
              </dt>
              <dd className="tabular-nums">{name.endsWith("_bytes") ? <Bytes count={value} /> : value.toLocaleString()}</dd>
            </div>
          ))}
          {network.length + own.length === 0 && (
            <div className="px-4 py-2 text-muted">
              <dt>None</dt>
              <dd>No metrics reported</dd>
            </div>
          )}
        </dl>
      </Card>
    </Section>
  );
}
