import { type Robot, routes } from "@roamfleet/protocol/routes";
import { badRequest, printable } from "../../kernel/fault.ts";
import { fingerprint, publicKeyType } from "./public-key.ts";
import type { RobotStatus } from "./store.ts";
import { ALL_PARTS, type AppFields, type Part, type ShownRobot } from "./store-shown.ts";

/** The app whose releases are returned as `current_release` and `desired_release` of a robot. */
const MAIN_APP = "main";

export function toWire({ row, details, apps, tags, config_state, health, failing }: ShownRobot): Robot {
  const main = apps.find(([, app]) => app === MAIN_APP);
  return {
    id: row.id,
    name: row.name,
    site_id: row.site_id,
    fleet_id: row.fleet_id,
    status: statusOf(row),
    last_seen_at: row.last_seen_at,
    health,
    failing,
    held_at: row.held_at,
    approval: row.approval_requested_at === null ? "approved" : "pending",
    labels: details?.labels ?? {},
    agent_version: details?.agent_version ?? null,
    platform: details?.platform ?? null,
    apps: apps.map(([, app, current, desired, status, release_state]) => ({
      app,
      current: toRelease(current, tags),
      desired: toRelease(desired, tags),
      status,
      release_state,
    })),
    current_release: toRelease(main?.[2], tags),
    desired_release: toRelease(main?.[3], tags),
    release_state: RELEASE_STATES.find((state) => apps.some((app) => stateOf(app) === state)) ?? "unknown",
    config_state,
    public_key_fingerprint: details === undefined ? "" : fingerprint(details.public_key),
    public_key_type: details === undefined ? "ed25519" : publicKeyType(details.public_key),
    created_at: row.created_at,
    updated_at: row.updated_at,
  };
}

function statusOf({ decommissioned_at, node_id, last_seen_at }: ShownRobot["row"]): RobotStatus {
  if (decommissioned_at !== null) return "decommissioned";
  if (node_id !== null) return "online";
  return last_seen_at === null ? "never_connected" : "offline";
}

/** States in order of severity, worst first. The state of a robot is the worst state of its apps. */
const RELEASE_STATES = ["failed", "behind", "current"] as const;
const stateOf = (fields: AppFields): AppFields[5] => fields[5];

function toRelease(id: string | null | undefined, tags: ShownRobot["tags"]): Robot["current_release"] {
  const tag = id == null ? undefined : tags.get(id);
  return id == null || tag === undefined ? null : { id, tag };
}

type Field = keyof Robot;
const FIELDS = Object.keys(routes.listRobots.responses[200].properties.items.items.properties) as Field[];

/** The parts that a field needs. The other fields are in every row. */
const PARTS: Partial<Record<Field, readonly Part[]>> = {
  health: ["health"],
  failing: ["health"],
  labels: ["details"],
  agent_version: ["details"],
  platform: ["details"],
  apps: ["apps", "releases"],
  current_release: ["apps", "releases"],
  desired_release: ["apps", "releases"],
  release_state: ["apps"],
  config_state: ["configs"],
  public_key_fingerprint: ["details"],
  public_key_type: ["details"],
};

export interface Selection {
  parts: ReadonlySet<Part>;
  wire: (robot: ShownRobot) => Robot;
}

/** Parses the query parameter `fields`, names separated by commas. Throws 400 for an unknown one. */
export function selectFields(text: string | undefined): Selection {
  if (text === undefined) return { parts: ALL_PARTS, wire: toWire };
  const asked = new Set(text.split(","));
  const fields = FIELDS.filter((field) => asked.delete(field));
  const [unknown] = asked;
  if (unknown !== undefined)
    throw badRequest(`query parameter fields: a robot has no field ${printable(unknown)}; it has ${FIELDS.join(", ")}`);
  const parts = new Set(fields.flatMap((field) => PARTS[field] ?? []));
  // The schema of the response describes a robot with all fields.
  const wire = (robot: ShownRobot): Robot => {
    const whole = toWire(robot);
    return Object.fromEntries(fields.map((field) => [field, whole[field]])) as unknown as Robot;
  };
  return { parts, wire };
}
