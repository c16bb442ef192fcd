import type { Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowRight } from "lucide-react";
import { healthQuery } from "./health-query.ts";
import { Badge, Card, Section, StatusBadge, Text, type Tone } from "../../ui/index.ts";
import { saysApp } from "./release-name.ts";
import { joinWorkloads, type Workload } from "./workloads.ts";

const TONES: Record<string, Tone> = { running: "ok", stopped: "idle", starting: "info", failed: "bad" };

/** The apps of a robot: current and desired release, and status. */
export function RobotWorkloads({ robot }: { robot: Robot }) {
  // A robot without reported health has no snapshot.
  const health = useQuery({ ...healthQuery(robot.id), enabled: robot.health !== "unknown" }).data?.data;
  const workloads = joinWorkloads(robot.apps, health?.workloads ?? []);
  return (
    <Section title="Apps">
      {workloads.length === 0 ? (
        <p className="text-muted">No apps deployed yet</p>
      ) : (
        <Card className="!p-0">
          <ul className="divide-y divide-line">
            {workloads.map((workload) => (
              <Item key={workload.app} workload={workload} />
            ))}
          </ul>
        </Card>
      )}
    </Section>
  );
}

function Item({ workload: { app, current, desired, status, kind, restarts, release_state } }: { workload: Workload }) {
  const releases = [current, desired].filter((release) => release !== null);
  const is_said = releases.length > 0 && releases.every(({ tag }) => saysApp({ app, tag }));
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      {!is_said && (
        <span className="min-w-0 font-medium">
          <Text>{app}</Text>
        </span>
      )}
      <span className="flex min-w-0 flex-1 items-center gap-1.5">
        <Release release={current} />
        {desired !== null && desired.id !== current?.id && (
          <>
            <ArrowRight size={12} aria-label="changing to" className="shrink-0 text-muted" />
            <Release release={desired} />
          </>
        )}
      </span>
      {kind !== undefined && <span className="text-xs text-muted">{kind.replaceAll("_", " ")}</span>}
      {restarts !== undefined && restarts > 0 && (
        <span className="text-xs text-muted tabular-nums">{`${restarts} ${restarts === 1 ? "restart" : "restarts"}`}</span>
      )}
      {status !== "" && <Badge tone={TONES[status] ?? "idle"}>{status}</Badge>}
      <StatusBadge status={release_state} />
    </li>
  );
}

function Release({ release }: { release: { id: string; tag: string } | null }) {
  if (release === null) return <span className="text-muted">none</span>;
  return (
    <Link to="/releases/$id" params={{ id: release.id }} className="min-w-0 font-medium text-accent hover:underline">
      <Text>{release.tag}</Text>
    </Link>
  );
}
