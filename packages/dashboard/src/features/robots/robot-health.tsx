import type { Robot } from "@roamfleet/protocol/routes";
import { useQuery } from "@tanstack/react-query";
import { Command, EmptyState, QueryState, Section, Time } from "../../ui/index.ts";
import { healthQuery } from "./health-query.ts";
import { HealthHistory } from "./health-history.tsx";
import { HealthChecks, HealthMetrics, HealthNow } from "./health-now.tsx";
import { robotLines } from "./robot-lines.ts";
import { useRobot } from "./use-robot.ts";

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
  return (
    <QueryState query={health}>
      {({ data }) => (
        <>
          <Section
            title={robot.status === "online" ? "Now" : "Last reported"}
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
