import type { HealthSnapshot, Robot } from "@roamfleet/protocol/routes";

type App = Robot["apps"][number];

export interface Workload extends App {
  kind?: string;
  restarts?: number;
}

/** Joins what the server stores about a robot's apps with what the robot reports about its workloads. */
export function joinWorkloads(apps: readonly App[], reported: HealthSnapshot["workloads"]): Workload[] {
  const of = new Map(reported.map((workload) => [workload.app, workload]));
  return apps.map((app) => {
    const own = of.get(app.app);
    return own === undefined ? app : { ...app, kind: own.kind, restarts: own.restarts };
  });
}
