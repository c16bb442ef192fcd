import type { Robot } from "@roamfleet/protocol/routes";
import { wireTime } from "../../kernel/time.ts";
import { fingerprint } from "./identity.ts";
import type { AppColumn, ConfigColumn, RobotRow, RobotStatus, ShownRobotRow } from "./store.ts";

/** The app shown as `current_release` and `desired_release`. */
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
    approval: robot.approval_requested_at === null ? "approved" : "pending",
    labels: robot.labels,
    agent_version: robot.agent_version,
    platform: robot.platform,
    apps: robot.apps.map((app) => ({
      app: app.app,
      current: app.current,
      desired: app.desired,
      status: app.status,
      release_state: releaseState(app),
    })),
    current_release: main?.current ?? null,
    desired_release: main?.desired ?? null,
    release_state: worstReleaseState(robot.apps),
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

/** From the worst to the best. */
const RELEASE_STATES = ["failed", "behind", "current", "unknown"] as const satisfies Robot["release_state"][];

/** Returns the worst state of a robot's apps. */
function worstReleaseState(apps: readonly AppColumn[]): Robot["release_state"] {
  const states = new Set(apps.map(releaseState));
  return RELEASE_STATES.find((state) => states.has(state)) ?? "unknown";
}

/** Returns an app's state. `failed` lasts until a newer deployment is tried; meanwhile the previous release runs. */
export function releaseState(app: Omit<AppColumn, "app" | "status">): Robot["release_state"] {
  if (app.failed && !app.under_way) return "failed";
  if (app.desired === null) return app.current === null ? "unknown" : "current";
  return app.desired.id === app.current?.id ? "current" : "behind";
}

/** Returns the worst state of a robot's namespaces; unknown if nothing was ever deployed. */
export function configState({ drifted, pending, in_sync }: ConfigColumn): Robot["config_state"] {
  if (drifted > 0) return "drifted";
  if (pending > 0) return "pending";
  return in_sync > 0 ? "in_sync" : "unknown";
}
