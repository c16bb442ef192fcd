import type { HealthSnapshot, Robot } from "@roamfleet/protocol/routes";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { query } from "../../api/queries.ts";
import { Card, hasFailed, Meter, TextLine, Time, type Tone } from "../../ui/index.ts";
import { chargeTone, percentText } from "./robot-health.tsx";
import { healthQuery } from "./use-robot.ts";

/** The most important values of a robot in one row: its resources, its last error and its last failed update. */
export function HealthStrip({ robot }: { robot: Robot }) {
  const { id, status, health: state } = robot;
  const read = useQuery({ ...healthQuery(id), enabled: state !== "unknown" });
  const health = read.data?.data;
  return (
    <section aria-label="Health" className="mb-6">
      <div className="grid grid-cols-2 gap-3 sm:grid-cols-4 xl:grid-cols-6">
        {health !== undefined && <Resources health={health} is_current={status === "online"} />}
        {health === undefined &&
          hasFailed(read) &&
          RESOURCES.map((label) => <Tile key={label} label={label} value={<Missing text="not loaded" />} />)}
        <LastError id={id} />
        <LastFailure id={id} />
      </div>
      {health !== undefined && status !== "online" && (
        <p className="mt-1 text-xs text-muted">
          Values from <Time at={health.at} exact />, before the robot went offline
        </p>
      )}
    </section>
  );
}

const RESOURCES = ["CPU", "Memory", "Disk", "Battery"];

const Missing = ({ text }: { text: string }) => <span className="font-normal text-muted">{text}</span>;

/** Values of an offline robot have no status color, because they may have changed. */
function Resources({ health: { cpu, memory, disks, battery }, is_current }: { health: HealthSnapshot; is_current: boolean }) {
  const [disk] = disks.toSorted((a, b) => usedShare(b) - usedShare(a));
  const tone = is_current ? {} : { tone: "idle" as const };
  return (
    <>
      <Tile label="CPU" value={`${Math.round(cpu.percent)}%`}>
        <Meter label="CPU" value={cpu.percent} {...tone} />
      </Tile>
      <Tile label="Memory" value={percentText(memory)}>
        <Meter label="Memory" value={memory.used_bytes} max={memory.total_bytes} {...tone} />
      </Tile>
      <Tile label={disk === undefined ? "Disk" : `Disk ${disk.mount}`} value={disk === undefined ? "—" : percentText(disk)}>
        {disk !== undefined && <Meter label={`Disk ${disk.mount}`} value={disk.used_bytes} max={disk.total_bytes} {...tone} />}
      </Tile>
      <Tile label="Battery" value={battery === null ? "none" : `${Math.round(battery.percent)}%${battery.charging ? " ⚡" : ""}`}>
        {battery !== null && (
          <Meter label="Battery" value={battery.percent} tone={is_current ? chargeTone(battery.percent) : ("idle" satisfies Tone)} />
        )}
      </Tile>
    </>
  );
}

const usedShare = ({ used_bytes, total_bytes }: { used_bytes: number; total_bytes: number }): number =>
  total_bytes > 0 ? used_bytes / total_bytes : 0;

function Tile({ label, value, children }: { label: string; value: ReactNode; children?: ReactNode }) {
  return (
    <Card className="!px-3 !py-2">
      <TextLine className="text-xs text-muted">{label}</TextLine>
      <div className="mb-1 font-semibold tabular-nums">{value}</div>
      {children}
    </Card>
  );
}

/** The last record of the robot's log with level error. */
function LastError({ id }: { id: string }) {
  const log = useQuery({ ...query("listRobotLogs", { params: { id }, query: { level: "error", limit: 1 } }), refetchInterval: REFRESH_MS });
  const record = log.data?.items.at(-1);
  return (
    <Tile
      label="Last error"
      value={
        record === undefined ? (
          <Missing text={log.isError || hasFailed(log) ? "not loaded" : log.data === undefined ? "…" : "none"} />
        ) : (
          <Link to="/robots/$id/logs" params={{ id }} search={{ level: "error" }} className="hover:underline">
            <Time at={record.at} />
          </Link>
        )
      }
    >
      {record !== undefined && <TextLine className="text-xs">{record.message}</TextLine>}
    </Tile>
  );
}

const REFRESH_MS = 30_000;
const FAILURE_KINDS = ["deployment.failed", "deployment.rolled_back"];

/** The last failed update of the robot, of a deployment to the robot or to its fleet. */
function LastFailure({ id }: { id: string }) {
  const lists = useQueries({
    queries: FAILURE_KINDS.map((kind) => query("listRobotTimeline", { params: { id }, query: { kind, limit: 1 } })),
  });
  const [failed] = lists.flatMap(({ data }) => data?.items ?? []).toSorted((a, b) => Date.parse(b.at) - Date.parse(a.at));
  const deployment_id = failed?.data.deployment_id;
  const is_read = lists.every(({ data }) => data !== undefined);
  return (
    <Tile
      label="Last failed update"
      value={
        failed === undefined ? (
          <Missing text={lists.some((one) => one.isError || hasFailed(one)) ? "not loaded" : is_read ? "none" : "…"} />
        ) : typeof deployment_id === "string" ? (
          <Link to="/deployments/$id" params={{ id: deployment_id }} className="hover:underline">
            <Time at={failed.at} />
          </Link>
        ) : (
          <Time at={failed.at} />
        )
      }
    >
      {failed !== undefined && <TextLine className="text-xs">{failed.summary}</TextLine>}
    </Tile>
  );
}
