import type { Robot } from "@robofleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import { fingerprint } from "./identity.ts";
import type { AppColumn, ConfigColumn, RobotRow, RobotStatus, ShownRobotRow } from "./store.ts";

/** The app that a robot's own release fields speak of. */
const MAIN_APP = "main";

export function toWire(robot: ShownRobotRow): Robot {
  const main = robot.apps.find(({ app }) => app === MAIN_APP);
  return {
    id: robot.id,
    name: robot.name,
    site_id: robot.site_id,
    fleet_id: robot.fleet_id,
    status: statusOf(robot),
    last_seen_at: wireTime(robot.last_seen_at),
    health: robot.health,
    failing: robot.failing,
    held_at: wireTime(robot.held_at),
    labels: robot.labels,
    agent_version: robot.agent_version,
    platform: robot.platform,
    apps: robot.apps.map(({ app, current, desired, status }) => ({ app, current, desired, status })),
    current_release: main?.current ?? null,
    desired_release: main?.desired ?? null,
    release_state: releaseState(main),
    config_state: configState(robot.configs),
    public_key_fingerprint: fingerprint(robot.public_key),
    created_at: wireTime(robot.created_at),
    updated_at: wireTime(robot.updated_at),
  };
}

function statusOf({ decommissioned_at, node_id, last_seen_at }: RobotRow): RobotStatus {
  if (decommissioned_at !== null) return "decommissioned";
  if (node_id !== null) return "online";
  return last_seen_at === null ? "never_connected" : "offline";
}

/** `failed` until something newer is tried: what runs then is the release before. */
export function releaseState(app: Omit<AppColumn, "app" | "status"> | undefined): Robot["release_state"] {
  if (app === undefined) return "unknown";
  if (app.failed && !app.under_way) return "failed";
  if (app.desired === null) return app.current === null ? "unknown" : "current";
  return app.desired.id === app.current?.id ? "current" : "behind";
}

/** The worst of its namespaces; nothing was ever deployed: unknown. */
export function configState({ drifted, pending, in_sync }: ConfigColumn): Robot["config_state"] {
  if (drifted > 0) return "drifted";
  if (pending > 0) return "pending";
  return in_sync > 0 ? "in_sync" : "unknown";
}
