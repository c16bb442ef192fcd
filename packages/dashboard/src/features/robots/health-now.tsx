import type { HealthSnapshot } from "@roamfleet/protocol/routes";
import type { ReactNode } from "react";
import { Badge, Bytes, byteText, Card, Duration, Meter, Section, Text, type Tone } from "../../ui/index.ts";

/** The current measurements as bars and numbers. */
export function HealthNow({ health: { cpu, memory, disks, battery, uptime_seconds } }: { health: HealthSnapshot }) {
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Measure label="CPU" value={`${Math.round(cpu.percent)}%`} note={`load ${cpu.load_1m.toFixed(2)} on ${cpu.cores} cores`}>
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
          <BatteryBar percent={battery.percent} />
        </Measure>
      )}
      <Measure label="Uptime" value={<Duration seconds={uptime_seconds} />} note="since boot" />
    </div>
  );
}

const percentText = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): string =>
  total_bytes > 0 ? `${Math.round((100 * used_bytes) / total_bytes)}%` : "—";

function Measure({ label, value, note, children }: { label: string; value: ReactNode; note: string; children?: ReactNode }) {
  return (
    <Card className="!px-4 !py-3">
      <Text line className="text-xs text-muted">
        {label}
      </Text>
      <p className="text-xl font-semibold tabular-nums">{value}</p>
      <p className="mb-1.5 truncate text-xs text-muted">{note}</p>
      {children}
    </Card>
  );
}

/** A bar for the charge: red when nearly empty, unlike a usage meter. */
function BatteryBar({ percent }: { percent: number }) {
  const fill = percent <= 10 ? "bg-bad" : percent <= 25 ? "bg-warn" : "bg-ok";
  return (
    <div
      role="meter"
      aria-label="Battery"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      className="h-1.5 w-full overflow-hidden rounded-full bg-active"
    >
      <div className={`h-full ${fill}`} style={{ width: `${Math.min(100, Math.max(0, percent))}%` }} />
    </div>
  );
}

const TONES: Record<string, Tone> = { ok: "ok", warn: "warn", error: "bad" };
const WORST_FIRST = ["error", "warn", "ok"];

/** The custom checks of the robot, worst first. */
export function HealthChecks({ checks }: { checks: HealthSnapshot["checks"] }) {
  return (
    <Section title="Checks">
      {checks.length === 0 ? (
        <p className="text-muted">No custom checks</p>
      ) : (
        <Card className="!p-0">
          <ul className="max-h-80 divide-y divide-line overflow-y-auto" tabIndex={0} aria-label="Checks">
            {checks
              .toSorted((a, b) => WORST_FIRST.indexOf(a.status) - WORST_FIRST.indexOf(b.status))
              .map(({ name, status, message }) => (
                <li key={name} className="flex items-baseline gap-3 px-4 py-2">
                  <Badge tone={TONES[status] ?? "idle"}>{status}</Badge>
                  <span className="min-w-0">
                    <Text className="font-medium">{name}</Text> {message !== "" && <Text className="text-muted">{message}</Text>}
                  </span>
                </li>
              ))}
          </ul>
        </Card>
      )}
    </Section>
  );
}

/** Network counters and custom metrics of the robot. */
export function HealthMetrics({ metrics, network }: Pick<HealthSnapshot, "metrics" | "network">) {
  const own = Object.entries(metrics);
  return (
    <Section title="Network and metrics">
      <Card className="!p-0">
        <dl className="max-h-80 divide-y divide-line overflow-y-auto" tabIndex={0} aria-label="Network and metrics">
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
