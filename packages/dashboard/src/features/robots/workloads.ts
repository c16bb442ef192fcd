import type { HealthSnapshot, Robot } from "@robofleet/protocol/routes";

type App = Robot["apps"][number];

export interface Workload extends App {
  kind?: string;
  restarts?: number;
  state: Robot["release_state"];
}

const MAIN_APP = "main";

/**
 * What the server knows of a robot's apps, with what the robot says of them itself. Whether a deployment failed is told of the
 * main app only.
 */
export function joinWorkloads(apps: readonly App[], reported: HealthSnapshot["workloads"], main_state: Robot["release_state"]): Workload[] {
  const of = new Map(reported.map((workload) => [workload.app, workload]));
  return apps.map((app) => {
    const own = of.get(app.app);
    const state = app.app === MAIN_APP ? main_state : stateOf(app);
    return own === undefined ? { ...app, state } : { ...app, kind: own.kind, restarts: own.restarts, state };
  });
}

function stateOf({ current, desired }: App): Robot["release_state"] {
  if (desired === null) return current === null ? "unknown" : "current";
  return desired.id === current?.id ? "current" : "behind";
}
